#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <etna/tensor/quant/block_format.h>

/// Integers of 4 or 8 bits in groups of 32, 64 or 128 elements of a row, with a scale d and, where `ZeroPoint` is true,
/// a zero point z: a whole number, so that 0 is exact. Internal.
///   INT8_G      d: f16 | G x i8 |              value = q * d, |q| <= 127
///   INT8_ZP_G   d, z: f16 | G x i8 |           value = (q - z) * d
///   INT4_G      d: f16 | G / 2 bytes |         value = (q - 8) * d
///   INT4_ZP_G   d, z: f16 | G / 2 bytes |      value = (q - z) * d
/// Of 4 bits, each 32 elements are 16 bytes: byte j has element j in its low half and element j + 16 in its high one.
namespace etna::quant {

template <int Bits, int Elements, bool ZeroPoint>
struct IntegerGroups {
  static constexpr int kHead = ZeroPoint ? 4 : 2, kBytes = kHead + Elements * Bits / 8;

  static void decode(const std::byte* blocks, float* out, std::int64_t count);
  static void encode(const float* values, const float* weights, std::byte* blocks, std::int64_t count);
  /// As encode(), with one scale and zero point for all blocks.
  static void encode_row(const float* values, const float* weights, std::byte* blocks, std::int64_t count);

  static constexpr BlockFormat format(std::string_view name, std::string_view holds) {
    return {name,  kNoGgufType, Elements, kBytes,    0, 65504.0f * (Bits == 8 ? 127 : 7),
            holds, decode,      encode,   encode_row};
  }
};

}  // namespace etna::quant
