#pragma once

#include <etna/tensor/quant/internal/scales.h>

/// Three values, -d, 0 and d, stored as quants 0, 1 and 2. Internal.
///   TQ1_0     256: five quants per byte in base 3 (52 bytes), f16 d
///   TQ2_0     256: two bits per quant (64 bytes), f16 d
///   I2_S      128: two bits per quant (32 bytes); one f32 d for the tensor, after all blocks (BitNet's x86 layout)
namespace etna::quant {

/// The scale d for which quants -1, 0 and 1 times d have the least squared error; 0 if all values are 0.
/// `weights` repeats after `period` elements.
float ternary_scale(const float* values, const float* weights, std::int64_t period, std::int64_t count);

struct TQ1_0 : Block<256, 54>, F16ScaleOf256<52> {
  static constexpr Description kDescription = {"TQ1_0", 34, 36, kLargestF16, "f16 scale, five ternary quants per byte"};
  static constexpr Packing kPacking = Packing::trits;
  static constexpr int kZero = 1, kLast = 2;
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct TQ2_0 : Block<256, 66>, F16ScaleOf256<64> {
  static constexpr Description kDescription = {"TQ2_0", 35, 37, kLargestF16, "f16 scale, 2-bit ternary quants"};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 1, kLast = 3;
  static consteval Field low(int run) { return {run / 4 * 32, run % 4 * 2, 2}; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct I2_S : Block<128, 32> {
  static constexpr Description kDescription = {
      "I2_S", 36, kNoGgufType, FLT_MAX, "2-bit ternary quants; one f32 scale after the tensor", 32};
  static constexpr Packing kPacking = Packing::fields;
  static constexpr int kZero = 1, kLast = 3;
  static consteval Field low(int run) { return {block(run), 6 - run % 4 * 2, 2}; }

  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {-1, -1};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte*) {
    return {F8{} + 1};
  }
  /// Takes values divided by the tensor's scale.
  static void encode(const float* values, const float* weights, std::byte* to);
};

/// In a format with two bits per quant: which of a group's first four runs is at bits 2 · place of 32 bytes.
template <typename F>
consteval int ternary_run(int place) {
  const int shifts[4] = {F::low(0).shift, F::low(1).shift, F::low(2).shift, F::low(3).shift};
  for (int run = 0; run < 4; ++run)
    if (shifts[run] == 2 * place) return run;
  return -1;
}
template <typename F>
inline constexpr int kRunAt[4] = {ternary_run<F>(0), ternary_run<F>(1), ternary_run<F>(2), ternary_run<F>(3)};

}  // namespace etna::quant
