#pragma once

#include <cstdint>
#include <span>

namespace etna::data {

/// The general categories of all code points as ascending runs: first code point << 4 | a Category, or kCategoryPairs
/// for a run that alternates between Lu (even offsets) and Ll (odd ones).
std::span<const std::uint32_t> category_runs();
constexpr std::uint32_t kCategoryPairs = 11;

}  // namespace etna::data
