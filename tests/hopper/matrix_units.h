#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// What matrix units compute: bf16, and how sums of its products are rounded.
namespace emulated {

inline float from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline float from_bf16(std::uint16_t x) { return from_bits(std::uint32_t{x} << 16); }
inline std::uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// x + Σ a · b over 16 as matrix units are known to sum: all terms are aligned to the largest and truncated toward 0,
/// with a bit more than f32 has, and so is the result.
inline float sum_of_products(float x, const float (&a)[16], const float (&b)[16]) {
  float terms[17], largest = 0;
  for (int k = 0; k < 16; ++k) terms[k] = a[k] * b[k];  // exact, of bf16
  terms[16] = x;
  for (float term : terms) largest = std::max(largest, std::abs(term));
  if (!(largest > 1e-30f && largest < 1e30f)) {  // or a term is no number: as it comes
    float sum = 0;
    for (float term : terms) sum += term;
    return sum;
  }
  std::uint32_t bits;
  std::memcpy(&bits, &largest, 4);
  const float unit = from_bits((bits & 0x7F800000) - (24u << 23)), per_unit = 1 / unit;
  std::int64_t sum = 0;
  for (float term : terms) {
    if (std::isnan(term)) return term;
    sum += static_cast<std::int64_t>(term * per_unit);
  }
  // To 24 bits toward 0.
  const std::uint64_t size = static_cast<std::uint64_t>(std::abs(sum));
  const int spare = std::max(0, 40 - std::countl_zero(size));
  const float result = static_cast<float>(size >> spare << spare) * unit;
  return sum < 0 ? -result : result;
}

}  // namespace emulated
