#pragma once

#include <cstdint>

/// Maxima of windows with their positions, by the widest vectors of the processor. Of equal maxima the first counts;
/// NaN counts as larger than any number, and of several NaNs the last counts.
namespace etna::cpu {

/// A row of windows over lines of adjacent elements.
struct PoolRow {
  const float* const* lines;  ///< each line padded with -∞ to at least (windows + 32) · stride + kernel · step elements
  const std::int32_t* places;  ///< position of each line's first element
  std::int64_t count;          ///< lines
  std::int64_t kernel, step, stride, windows;
};
/// @param first for each window, the position to report if no element exceeds -∞; readable up to windows + 32
void max_pool_row(const PoolRow& row, const std::int32_t* first, float* best, std::int32_t* where);

/// One window whose elements are `channels` adjacent values at each of `count` pixels.
/// @param first position to report if no element exceeds -∞
void max_pool_pixels(const float* const* pixels, const std::int32_t* places, std::int64_t count, std::int64_t channels,
                     std::int32_t first, float* best, std::int32_t* where);
/// The same for the bits of bf16.
void max_pool_pixels(const std::uint16_t* const* pixels, const std::int32_t* places, std::int64_t count,
                     std::int64_t channels, std::int32_t first, std::uint16_t* best, std::int32_t* where);

}  // namespace etna::cpu
