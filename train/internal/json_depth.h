#pragma once

#include <string_view>

namespace etna::training {

/// True if objects and lists of a JSON text are nested more than 100 deep, as no program writes them. Parsing those is
/// safe, but writing them again could exhaust the stack.
bool json_too_deep(std::string_view text);

}  // namespace etna::training
