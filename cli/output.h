#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace etna::cli {

/// Writes to standard output. @throws Error for a failed write, a full disk for example
void print_all(const std::string& text);

/// Writes "etna: ..." to standard error. That it cannot be written is no error: nobody could be told.
void print_error(const std::string& sentence);

/// Whether `out` may be written from `in`; if not, says why. @param force whether a file that is there may be replaced
bool may_write(const std::filesystem::path& in, const std::filesystem::path& out, bool force);

struct Terminal {
  bool is_terminal = false;  ///< standard output is one
  std::size_t width = 80, height = 24;
  bool colour = false;  ///< a terminal, and neither NO_COLOR nor TERM=dumb says otherwise
};

/// What standard output goes to. $COLUMNS and $LINES beat what the terminal says; without either, `width` is 80.
Terminal terminal();

}  // namespace etna::cli
