#pragma once

#include <etna/tensor/quant/internal/scales.h>

/// The K formats: super-blocks of 256 with sub-blocks of 16 or 32. Each sub-block has a small integer as its scale
/// (and minimum), in units of the super-block's f16 d (and dmin). Internal.
///
///          bytes at                                                                   value
///   Q2_K   scales 0 (16: scale, minimum x 16), quants 16 (64), d 80, dmin 82           d * s * q - dmin * m
///   Q3_K   third bits 0 (32), quants 32 (64), scales 96 (12), d 108                    d * (s - 32) * (q - 4)
///   Q4_K   d 0, dmin 2, scales 4 (12), quants 16 (128)                                d * s * q - dmin * m
///   Q5_K   d 0, dmin 2, scales 4 (12), fifth bits 16 (32), quants 48 (128)            d * s * q - dmin * m
///   Q6_K   low bits 0 (128), high bits 128 (64), scales 192 (16 x i8), d 208          d * s * (q - 32)
namespace etna::quant {

struct Q2_K : Block<256, 84> {
  static constexpr Description kDescription = {"Q2_K", 10, 10, kLargestF16 * 15,
                                               "16 sub-blocks: 4-bit scales and minimums, 2-bit quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 0, kLast = 3;
  static consteval Field low(int run) { return {16 + run / 4 * 32, run % 4 * 2, 2}; }

  static constexpr ScaleKind kScaleKind = ScaleKind::integers_per_16;
  static constexpr bool kMinimums = true;
  static constexpr F16Fields kF16 = {80, 82};
  static ETNA_INLINE B16 small_scales(const std::byte* b) { return four_bits<0>(bits_at<B16>(b)); }
  static ETNA_INLINE B16 small_minimums(const std::byte* b) { return four_bits<4>(bits_at<B16>(b)); }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q3_K : Block<256, 110> {
  static constexpr Description kDescription = {"Q3_K", 11, 12, kLargestF16 * 93,
                                               "16 sub-blocks: 6-bit scales, 3-bit quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 4, kLast = 7;
  static consteval Field low(int run) { return {32 + run / 4 * 32, run % 4 * 2, 2}; }
  static consteval Field high(int run) { return {0, run, 1}; }

  static constexpr ScaleKind kScaleKind = ScaleKind::integers_per_16;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {108, -1};
  /// 6-bit scales with an offset of 32 in 12 bytes: low nibbles in the first eight, pairs of high bits in the last
  /// four.
  static ETNA_INLINE B16 small_scales(const std::byte* b) {
    const auto x = bits_at<std::uint32_t>(b + 96), y = bits_at<std::uint32_t>(b + 100),
               z = bits_at<std::uint32_t>(b + 104);
    typedef std::uint32_t Words __attribute__((vector_size(16)));
    const Words six = {six_bits(x, z), six_bits(y, z >> 2), six_bits(x >> 4, z >> 4), six_bits(y >> 4, z >> 6)};
    return (B16)six - static_cast<std::int8_t>(32);
  }
  static void encode(const float* values, const float* weights, std::byte* to);

 private:
  static ETNA_INLINE std::uint32_t six_bits(std::uint32_t low, std::uint32_t high) {
    return (low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
  }
};

struct Q4_K : Block<256, 144>, SixBitScalesAndMinimums {
  static constexpr Description kDescription = {"Q4_K", 12, 15, kLargestF16 * 63,
                                               "8 sub-blocks: 6-bit scales and minimums, 4-bit quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 0, kLast = 15;
  static consteval Field low(int run) { return {16 + run / 2 * 32, run % 2 * 4, 4}; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q5_K : Block<256, 176>, SixBitScalesAndMinimums {
  static constexpr Description kDescription = {"Q5_K", 13, 17, kLargestF16 * 63,
                                               "8 sub-blocks: 6-bit scales and minimums, 5-bit quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 0, kLast = 31;
  static consteval Field low(int run) { return {48 + run / 2 * 32, run % 2 * 4, 4}; }
  static consteval Field high(int run) { return {16, run, 1}; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q6_K : Block<256, 210>, ByteScales<192, 208> {
  static constexpr Description kDescription = {"Q6_K", 14, 18, kLargestF16 * 127 * 31,
                                               "16 sub-blocks: 8-bit scales, 6-bit quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 32, kLast = 63;
  static consteval Field low(int run) { return {run / 4 * 64 + run % 2 * 32, run % 4 / 2 * 4, 4}; }
  static consteval Field high(int run) { return {128 + run / 4 * 32, run % 4 * 2, 2}; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

}  // namespace etna::quant
