#pragma once

#include <cstddef>
#include <cstdio>

namespace etna::os {

bool is_terminal(std::FILE* stream);

struct TerminalSize {
  std::size_t columns = 0, rows = 0;  ///< 0: unknown
};
TerminalSize terminal_size(std::FILE* stream);

}  // namespace etna::os
