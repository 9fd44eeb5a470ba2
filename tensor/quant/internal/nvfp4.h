#pragma once

#include <etna/tensor/quant/internal/non_linear_formats.h>

/// NVFP4 as ggml stores it: blocks of 64 in four sub-blocks of 16, each with a scale in UE4M3, an unsigned float with 4
/// exponent and 3 mantissa bits. Files may have a further f32 scale for a whole tensor, stored as a separate tensor.
/// Internal.
///   4 x UE4M3, 4 x 8 bytes of E2M1 quants          ue4m3(s) * E2M1[q]
/// Byte j of a sub-block's 8 bytes holds element j in its low nibble and element j + 8 in its high nibble.
namespace etna::quant {

struct NVFP4 : Block<64, 36> {
  static constexpr Description kDescription = {"NVFP4", 40, 39, 448 * 6, "4 sub-blocks: scales in UE4M3, 4-bit floats"};
  static constexpr auto& kLevels = MXFP4::kLevels;
  static constexpr Packing kPacking = Packing::nibbles_of_16;
  static constexpr int kZero = 12, kLast = 24;
  static consteval int quants_at(int run) { return block(run) + 4 + run % 2 * 16; }

  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_16;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {-1, -1};
  template <class V>
  static ETNA_INLINE ScalesPer16 scales_per_16(const std::byte* b) {
    return {V::f16s_of(f16_bits(b), f16_bits(b + kBytes)) * kUnit,
            V::f16s_of(f16_bits(b + 2 * kBytes), f16_bits(b + 3 * kBytes)) * kUnit};
  }
  static void encode(const float* values, const float* weights, std::byte* to) {
    for (int sub = 0; sub < 4; ++sub) encode_16(values + 16 * sub, weights + 16 * sub, to[sub], to + 4 + 8 * sub);
  }

 private:
  /// An f16 has the same mantissa in its top bits, and an exponent bias that is larger by 8. Levels are doubled.
  static constexpr float kUnit = 128;

  /// A block's scales as four f16 numbers in units of kUnit. ggml reads 0x7f, which is NaN elsewhere, as 0.
  static ETNA_INLINE std::uint64_t f16_bits(const std::byte* block) {
    constexpr std::uint64_t kEach = 0x0001000100010001u;
    std::uint64_t x = bits_at<std::uint32_t>(block);
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    const std::uint64_t differs = ((x ^ 0x7f * kEach) + 0x7fff * kEach) >> 15 & kEach;
    return (x & 0x7f * kEach) << 7 & differs * 0xffff;
  }
  /// A scale divided by two. The smallest seven are subnormal.
  static float half_scale(int bits) {
    const int exponent = bits >> 3, mantissa = bits & 7;
    return static_cast<float>(exponent == 0 ? mantissa : mantissa + 8) * 0x1p-10f *
           static_cast<float>(1 << (exponent == 0 ? 0 : exponent - 1));
  }
  /// Tries all scales for which the largest value is about half to twice the last level.
  static void encode_16(const float* x, const float* w, std::byte& scale, std::byte* quants) {
    float largest = 0, best = 0;
    for (int i = 0; i < 16; ++i) {
      largest = std::max(largest, x[i] < 0 ? -x[i] : x[i]);
      best += w[i] * x[i] * x[i];
    }
    int found = 0;
    for (int bits = 1; bits < 0x7f; ++bits) {
      const float d = half_scale(bits), ratio = largest / (12 * d);
      if (ratio > 2.0f || ratio < 0.5f) continue;
      float error = 0;
      for (int i = 0; i < 16; ++i) {
        const float off = x[i] - d * static_cast<float>(kLevels[nearest_e2m1(x[i] / d)]);
        error += w[i] * off * off;
      }
      if (error < best) {
        best = error;
        found = bits;
      }
    }
    scale = static_cast<std::byte>(found);
    const float d = half_scale(found);
    const auto quant = [&](int i) { return found == 0 ? 0u : nearest_e2m1(x[i] / d); };
    for (int j = 0; j < 8; ++j) quants[j] = static_cast<std::byte>(quant(j) | quant(j + 8) << 4);
  }
};

}  // namespace etna::quant
