#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etna::training {

/// The name that a mistyped one means: the one that fewest insertions, deletions, substitutions and swaps of neighbours
/// make of it, at most one in three characters. Empty where none is that near.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace etna::training
