#pragma once

#include <type_traits>

#include <etna/tensor/quant/internal/scales.h>

/// Integers of 4 or 8 bits in groups of 32, 64 or 128 elements of a row, with a scale d and, where `ZeroPoint` is true,
/// a zero point z: an integer, so that 0 is exact. Internal.
///   INT8_G      d: f16 | G x i8 |              value = q * d, |q| <= 127
///   INT8_ZP_G   d, z: f16 | G x i8 |           value = (q - z) * d
///   INT4_G      d: f16 | G / 2 bytes |         value = (q - 8) * d
///   INT4_ZP_G   d, z: f16 | G / 2 bytes |      value = (q - z) * d
/// With 4 bits, 32 elements take 16 bytes: byte j holds element j in its low nibble and element j + 16 in its high one.
namespace etna::quant {

template <int Bits, int Elements, bool ZeroPoint>
struct IntegerBlocks {
  static constexpr int kHead = ZeroPoint ? 4 : 2;
  using Layout = Block<Elements, kHead + Elements * Bits / 8>;

  static constexpr Packing kPacking = Bits == 8 ? Packing::bytes : Packing::nibbles;
  static constexpr int kZero = Bits == 8 ? 128 : ZeroPoint ? 0 : 8, kLast = Bits == 8 ? 255 : 15;
  static consteval int quants_at(int run) { return Layout::block(run) + kHead + 32 * run % Elements * Bits / 8; }

  static constexpr Description described(std::string_view name) {
    return {name, kNoGgufType, kNoGgufType, kLargestF16 * (Bits == 8 ? 127 : 7),
            Bits == 8   ? ZeroPoint ? "f16 scale and zero point, 8-bit quants" : "f16 scale, 8-bit quants"
            : ZeroPoint ? "f16 scale and zero point, 4-bit quants"
                        : "f16 scale, 4-bit quants"};
  }
  static void encode(const float* values, const float* weights, std::byte* to);
  /// Like encode(), with one scale and zero point for all blocks.
  static void encode_row(const float* values, const float* weights, std::byte* blocks, std::int64_t count);
};

template <typename F, int Bits, int Elements, bool ZeroPoint>
struct Integers : IntegerBlocks<Bits, Elements, ZeroPoint>,
                  IntegerBlocks<Bits, Elements, ZeroPoint>::Layout,
                  std::conditional_t<ZeroPoint, F16ScaleAndZeroPoint<F>, F16Scale<F>> {};

#define ETNA_INTEGER_FORMAT(NAME, BITS, ELEMENTS, ZERO_POINT)           \
  struct NAME : Integers<NAME, BITS, ELEMENTS, ZERO_POINT> {            \
    static constexpr Description kDescription = NAME::described(#NAME); \
  }
ETNA_INTEGER_FORMAT(INT8_64, 8, 64, false);
ETNA_INTEGER_FORMAT(INT8_128, 8, 128, false);
ETNA_INTEGER_FORMAT(INT8_ZP_32, 8, 32, true);
ETNA_INTEGER_FORMAT(INT8_ZP_64, 8, 64, true);
ETNA_INTEGER_FORMAT(INT8_ZP_128, 8, 128, true);
ETNA_INTEGER_FORMAT(INT4_64, 4, 64, false);
ETNA_INTEGER_FORMAT(INT4_128, 4, 128, false);
ETNA_INTEGER_FORMAT(INT4_ZP_32, 4, 32, true);
ETNA_INTEGER_FORMAT(INT4_ZP_64, 4, 64, true);
ETNA_INTEGER_FORMAT(INT4_ZP_128, 4, 128, true);
#undef ETNA_INTEGER_FORMAT

}  // namespace etna::quant
