#pragma once

#include <cstddef>
#include <cstdint>

/// Formats whose quants are points of a grid: eight or four elements at a time are one index into a table of points,
/// which were chosen for weights. Blocks of 256; they are decoded, not encoded. Internal.
///   IQ2_XXS  66 bytes: f16 d; for each 32: four indices of 8 bits, then signs of 7 bits and s of 4
///   IQ2_XS   74: f16 d; for each 8 an index of 9 bits and signs of 7; for each 16 s of 4 bits
///   IQ2_S    82: f16 d; indices' low bytes, signs of 8 bits, indices' 2 high bits, s of 4 bits for each 16
///   IQ3_XXS  98: f16 d; for each 4 an index of 8 bits; for each 32 signs of 7 bits and s of 4
///   IQ3_S    110: f16 d; indices' low bytes, their 9th bits, signs of 8 bits, s of 4 bits for each 32
///   IQ1_S    50: f16 d; indices' low bytes; for each 32 their 3 high bits, s of 3 bits, the sign of 1/8
///   IQ1_M    56: indices' low bytes; for each 8 their 3 high bits and the sign of 1/8; s of 3 bits for each 16, with
///            the four parts of d between them
/// A value is d · (s + 1/2) / 4 · point of IQ2, d · (s + 1/2) / 2 · point of IQ3_XXS, d · (2 s + 1) · point of IQ3_S,
/// and d · (2 s + 1) · (point ± 1/8) of IQ1. The eighth of seven signs makes their number even.
namespace etna::quant {

void decode_iq2_xxs(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq2_xs(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq2_s(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq3_xxs(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq3_s(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq1_s(const std::byte* blocks, float* out, std::int64_t count);
void decode_iq1_m(const std::byte* blocks, float* out, std::int64_t count);

}  // namespace etna::quant
