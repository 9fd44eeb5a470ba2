#pragma once

#include <etna/tensor/quant/internal/scales.h>

/// 4-bit quants that index a table of values, which are closer together near 0, where most weights are. Internal.
///   IQ4_NL  blocks of 32: f16 d, 16 bytes of quants                    d * table[q]
///   IQ4_XS  256: f16 d, high bits of 8 scales (u16), low bits (4), quants (128)     d * (s - 32) * table[q]
///   MXFP4   blocks of 32: e (a power of two), quants of 1 sign, 2 exponent and 1 mantissa bits (OCP microscaling)
namespace etna::quant {

/// The quant whose level, an E2M1 number times two, is nearest to x.
unsigned nearest_e2m1(float x);

struct NonLinear {
  static constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 127, kLast = 240;
};

struct IQ4_NL : Block<32, 18>, NonLinear, F16Scale<IQ4_NL> {
  static constexpr Description kDescription = {"IQ4_NL", 20, 25, kLargestF16 * 113,
                                               "f16 scale, 4-bit indices into a table of 16 levels"};
  static consteval int quants_at(int run) { return block(run) + 2; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct IQ4_XS : Block<256, 136>, NonLinear {
  static constexpr Description kDescription = {"IQ4_XS", 23, 30, kLargestF16 * 31 * 113,
                                               "8 sub-blocks: 6-bit scales, 4-bit indices into a table of 16 levels"};
  static consteval int quants_at(int run) { return 8 + 16 * run; }

  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {0, -1};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    const std::uint64_t six =
        spread_nibbles(bits_at<std::uint32_t>(b + 4)) | spread_pairs(bits_at<std::uint16_t>(b + 2)) << 4;
    return {__builtin_convertvector(V::ints(six) - 32, F8) * V::f16_everywhere(b)};
  }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct MXFP4 : Block<32, 17>, HalfPowerScale<MXFP4> {
  static constexpr Description kDescription = {"MXFP4", 39, 38, 0x1.8p127f, "a power of two, 4-bit floats"};
  /// E2M1 numbers times two.
  static constexpr int kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 12, kLast = 24;
  static consteval int quants_at(int run) { return block(run) + 1; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

}  // namespace etna::quant
