#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include <etna/tensor/ops/quantized/internal/packed_formats.h>

/// Rows of x to codes of 8 bits, 32 elements at a time. Internal.
///
/// Few rows are scale · code, so that a weight in blocks needs nothing but its products with codes. Many rows are
/// scale · code + center: the codes cover the range of the 32 elements, not twice their largest magnitude, and a least
/// squares fit follows. The error of normally distributed numbers is 4.5e-3 of their norm for 5.3e-3, for one
/// multiply-add more in 32 · 16 products. (4.6e-3 without the fit; a scale for each 16 elements without centers would
/// be 4.7e-3.)
namespace etna::quantized {

/// Writes scales and sums of 32 elements for their codes, of which parts are the sums of 16.
ETNA_INLINE void set_scale(RoundedGroup& to, int block, float scale, float center, const int (&parts)[2]) {
  for (int part = 0; part < 2; ++part) {
    to.scales[2 * block + part] = scale;
    to.sums[2 * block + part] = scale * static_cast<float>(parts[part]);
    to.code_sums[2 * block + part] = static_cast<std::int16_t>(parts[part]);
  }
  to.block_scales[block] = scale;
  to.block_sums[block] = scale * static_cast<float>(parts[0] + parts[1]);
  to.centers[block] = center;
}

/// Elements 32 block ... 32 block + 31 of a group from 32 values. Values below the range of an inverse count as 0; NaN
/// and infinities make the scale NaN.
ETNA_INLINE void round_block(const float* x, RoundedGroup& to, int block) {
  // Magnitudes compare as integers, and what is not finite is the largest.
  std::uint32_t most = 0;
  for (int i = 0; i < 32; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  const bool finite = most < 0x7f800000u, small = most < 0x0d800000u;  // 2^-100
  const float largest = std::bit_cast<float>(most);
  const float scale = !finite ? std::bit_cast<float>(0x7fc00000u) : small ? 0.0f : largest / 127.0f;
  const float inverse = !finite || small ? 0.0f : 127.0f / largest;
  // Adding 1.5 · 2^23 rounds to a whole number, which is then in the lowest bits.
  int parts[2] = {0, 0};
  std::int8_t* codes = to.codes + 32 * block;
  for (int part = 0; part < 2; ++part) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[16 * part + i] * inverse + 12582912.0f);
      const auto code = static_cast<std::int8_t>(static_cast<std::uint8_t>(bits));
      codes[16 * part + i] = code;
      sum += code;
    }
    parts[part] = sum;
  }
  set_scale(to, block, scale, 0, parts);
}

/// Vectors of the compiler's, since its own vectorizer leaves these sums to one element at a time.
typedef float EightFloats __attribute__((vector_size(32)));
typedef std::int32_t EightInts __attribute__((vector_size(32)));
typedef float EightFloatsAnywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef std::int32_t EightIntsAnywhere __attribute__((vector_size(32), aligned(4), may_alias));

/// Eight elements reduced to one, in the first place, by halves.
template <typename Eight, typename Combine>
ETNA_INLINE void reduce(Eight& x, const Combine& combine) {
  combine(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
  combine(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
  combine(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
}
ETNA_INLINE float sum_of(const EightFloats& x) {
  EightFloats sums = x;
  reduce(sums, [](EightFloats& a, const EightFloats& b) { a += b; });
  return sums[0];
}

/// The same around the middle of the 32 values. Where these differ by less than the range of an inverse, all are their
/// middle.
ETNA_INLINE void round_block_centered(const float* x, RoundedGroup& to, int block) {
  // As whole numbers with a sign, bits of floats compare like the floats: those of negative ones are turned over.
  EightFloats values[4];
  EightInts bits[4], least, most;
  for (int i = 0; i < 4; ++i) {
    values[i] = *reinterpret_cast<const EightFloatsAnywhere*>(x + 8 * i);
    bits[i] = *reinterpret_cast<const EightIntsAnywhere*>(x + 8 * i);
    bits[i] ^= (bits[i] >> 31) & 0x7fffffff;
  }
  least = most = bits[0];
  for (int i = 1; i < 4; ++i) {
    least = bits[i] < least ? bits[i] : least;
    most = bits[i] > most ? bits[i] : most;
  }
  reduce(least, [](EightInts& a, const EightInts& b) { a = b < a ? b : a; });
  reduce(most, [](EightInts& a, const EightInts& b) { a = b > a ? b : a; });
  const std::int32_t first = least[0], last = most[0];
  const float low = 0.5f * std::bit_cast<float>(first ^ ((first >> 31) & 0x7fffffff)),
              high = 0.5f * std::bit_cast<float>(last ^ ((last >> 31) & 0x7fffffff)), middle = low + high,
              half = high - low;
  const bool finite = last < 0x7f800000 && first > ~0x7f800000;
  int parts[2] = {0, 0};
  std::int8_t* codes = to.codes + 32 * block;
  if (!finite || half < 0x1p-100f) {
    std::memset(codes, 0, 32);
    return set_scale(to, block, finite ? 0.0f : std::bit_cast<float>(0x7fc00000u), finite ? middle : 0.0f, parts);
  }
  // Values between -127 and 127, of which codes · scale + shift is the nearest line.
  constexpr float kWhole = 12582912.0f;  // 1.5 · 2^23: adding it rounds to a whole number, in the lowest bits
  const float inverse = 127.0f / half;
  EightFloats rounded[4], products = {}, squares = {};
  for (int i = 0; i < 4; ++i) {
    values[i] = (values[i] - middle) * inverse;
    rounded[i] = values[i] + kWhole;
    const EightFloats code = rounded[i] - kWhole;
    products += code * values[i];
    squares += code * code;
  }
  parts[0] = static_cast<int>(sum_of((rounded[0] - kWhole) + (rounded[1] - kWhole)));
  parts[1] = static_cast<int>(sum_of((rounded[2] - kWhole) + (rounded[3] - kWhole)));
  // The least and the largest value have different codes, so that what is divided by is at least 1.
  const float sum = sum_of((values[0] + values[1]) + (values[2] + values[3])),
              all = static_cast<float>(parts[0] + parts[1]);
  const float scale = (32 * sum_of(products) - sum * all) / (32 * sum_of(squares) - all * all),
              shift = (sum - scale * all) / 32;
  std::uint32_t words[32];
  std::memcpy(words, rounded, sizeof words);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(words[i]));
  const float unit = half / 127.0f;
  set_scale(to, block, scale * unit, middle + shift * unit, parts);
}

}  // namespace etna::quantized
