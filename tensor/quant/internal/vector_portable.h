#pragma once

#include <etna/tensor/quant/internal/scales.h>

/// Runs and scales of a group in portable C++. Internal.
namespace etna::quant {

ETNA_INLINE float f16_to_float(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu;
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t top = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | top |
                              static_cast<std::uint32_t>(bits & 0x8000u) << 16);
}
ETNA_INLINE float f16_at(const std::byte* at) { return f16_to_float(bits_at<std::uint16_t>(at)); }

/// Elements of unquantized formats.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};
ETNA_INLINE float value(float x) { return x; }
ETNA_INLINE float value(BF16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
ETNA_INLINE float value(F16 x) { return f16_to_float(x.bits); }

/// Rounds 32 values to nearest even; NaN stays NaN.
ETNA_INLINE void round_bf16(const float* x, std::uint16_t* y) {
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t rounded = u + 0x7fffu + (u >> 16 & 1u), quiet = u | 0x400000u;
    y[i] = static_cast<std::uint16_t>(((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
  }
}

struct Portable {
  static constexpr int kRuns = 1;  ///< runs in Quants
  struct Quants {
    std::uint8_t at[32];
  };

  template <typename F, int Run>
  static ETNA_INLINE Quants bytes(const std::byte* b) {
    Quants q = bits_at<Quants>(b + F::quants_at(Run));
    for (std::uint8_t& quant : q.at) quant ^= 0x80;
    return q;
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants nibbles(const std::byte* b) {
    // (Compilers do not vectorize loops over 16 bytes.)
    const B16 x = bits_at<B16>(b + F::quants_at(Run)), low = four_bits<0>(x), high = four_bits<4>(x);
    Quants q;
    std::memcpy(q.at, &low, 16);
    std::memcpy(q.at + 16, &high, 16);
    return q;
  }
  static ETNA_INLINE Quants by_eights(Quants q) {
    Quants y;
    for (int i = 0; i < 32; ++i) y.at[i] = q.at[i / 16 * 8 + i / 8 % 2 * 16 + i % 8];
    return y;
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants with_fifth(const std::byte* b, Quants q) {
    const auto bits = bits_at<std::uint32_t>(b + F::fifth_at(Run));
    for (int i = 0; i < 32; ++i) q.at[i] = static_cast<std::uint8_t>(q.at[i] | (bits >> i & 1u) << 4);
    return q;
  }
  template <typename F>
  static ETNA_INLINE Quants levels(Quants q) {
    for (std::uint8_t& quant : q.at) quant = kLevelsOf<F>.at[quant];
    return q;
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants low(const std::byte* b) {
    constexpr Field kLow = F::low(Run);
    Quants q = bits_at<Quants>(b + kLow.at);
    for (std::uint8_t& quant : q.at) quant = quant >> kLow.shift & ((1 << kLow.bits) - 1);
    return q;
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants with_high(const std::byte* b, Quants q) {
    constexpr Field kHigh = F::high(Run);
    const auto from = bits_at<Quants>(b + kHigh.at);
    for (int i = 0; i < 32; ++i) {
      const int bits = from.at[i] >> kHigh.shift & ((1 << kHigh.bits) - 1);
      q.at[i] = static_cast<std::uint8_t>(q.at[i] | bits << F::low(Run).bits);
    }
    return q;
  }
  /// A byte is the fraction 0.quant quant quant ... in base 3, times 256.
  template <typename F, int Run>
  static ETNA_INLINE Quants trits(const std::byte* b) {
    Quants q;
    const auto digits = [&](int at, int count, int power, int to) {
      std::uint8_t bytes[32];
      std::memcpy(bytes, b + at, static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) q.at[to + i] = static_cast<std::uint8_t>((bytes[i] * power & 0xff) * 3 >> 8);
    };
    constexpr int kPowers[] = {1, 3, 9, 27, 81};
    if constexpr (Run < 5) {
      digits(0, 32, kPowers[Run], 0);
    } else if constexpr (Run < 7) {
      digits(32, 16, kPowers[2 * Run - 10], 0);
      digits(32, 16, kPowers[2 * Run - 9], 16);
    } else {
      digits(32, 16, 81, 0);
      for (int digit = 0; digit < 4; ++digit) digits(48, 4, kPowers[digit], 16 + 4 * digit);
    }
    return q;
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants points(const std::byte* b) {
    const auto from = F::points(b, Run);
    Quants q;
    std::memcpy(q.at, from.eights, sizeof q.at);
    if constexpr (F::kSigns) {
      for (int i = 0; i < 32; ++i)
        q.at[i] = static_cast<std::uint8_t>((from.negative >> i & 1u) != 0 ? F::kZero - q.at[i] : F::kZero + q.at[i]);
    }
    return q;
  }

  template <typename F>
  static ETNA_INLINE F8 f16s(const std::byte* b) {
    F8 all;
    for (std::size_t i = 0; i < 8; ++i) all[i] = f16_at(b + kBlocks<F>[i]);
    return all;
  }
  template <typename F>
  static ETNA_INLINE RunScales f16_pairs(const std::byte* b) {
    return {f16s<F>(b), f16s<F>(b + 2)};
  }
  /// Converts eight f16 numbers; each argument holds the bits of four.
  static ETNA_INLINE F8 f16s_of(std::uint64_t first, std::uint64_t last) {
    F8 all;
    for (std::size_t i = 0; i < 8; ++i)
      all[i] = f16_to_float(static_cast<std::uint16_t>((i < 4 ? first : last) >> (16 * (i % 4))));
    return all;
  }
  static ETNA_INLINE F8 f16_everywhere(const std::byte* at) { return F8{} + f16_at(at); }
  /// The scales and the format's own minimums, one for each 16 elements.
  template <typename F>
  static ETNA_INLINE void scales_per_16(const std::byte* b, float (&scales)[kSubs], float (&minimums)[kSubs]) {
    if constexpr (kHasIntegersPer16<F>) {
      const float d = f16_at(b + F::kF16.first);
      const B16 small = F::small_scales(b);
      for (std::size_t i = 0; i < kSubs; ++i) scales[i] = d * static_cast<float>(small[i]);
      if constexpr (F::kMinimums) {
        const float least = f16_at(b + F::kF16.second);
        const B16 minimum = F::small_minimums(b);
        for (std::size_t i = 0; i < kSubs; ++i) minimums[i] = least * static_cast<float>(minimum[i]);
      }
    } else if constexpr (kHasFloatsPer16<F>) {
      const ScalesPer16 all = F::template scales_per_16<Portable>(b);
      for (std::size_t i = 0; i < kSubs; ++i) scales[i] = i < 8 ? all.first[i] : all.last[i - 8];
      for (std::size_t i = 0; i < kSubs; ++i) minimums[i] = 0;
    } else {
      const RunScales runs = F::template scales<Portable>(b);
      for (std::size_t i = 0; i < kSubs; ++i) scales[i] = runs.scales[i / 2];
      for (std::size_t i = 0; i < kSubs; ++i) minimums[i] = runs.minimums[i / 2];
    }
  }
  static ETNA_INLINE I8 ints(std::uint64_t bytes) {
    I8 all;
    for (std::size_t i = 0; i < 8; ++i) all[i] = static_cast<std::int32_t>(bytes >> (8 * i) & 0xff);
    return all;
  }
};

}  // namespace etna::quant
