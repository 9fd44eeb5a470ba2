#pragma once

#include <cstdint>
#include <span>

namespace etna::data {

/// The general categories of all code points, as runs in ascending order: first code point << 4 | code. Codes are those
/// of Category, and kCategoryPairs for a run whose even places are Lu and whose odd ones are Ll.
std::span<const std::uint32_t> category_runs();
constexpr std::uint32_t kCategoryPairs = 11;

}  // namespace etna::data
