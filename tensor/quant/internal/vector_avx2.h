#pragma once

#include <immintrin.h>

#include <etna/tensor/quant/internal/scales.h>

/// Runs and scales of a group in AVX2 registers. Include and use this only where functions are compiled for AVX2, FMA
/// and F16C. Internal.
namespace etna::quant {

ETNA_INLINE __m128i load16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
ETNA_INLINE __m256i load32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
template <int Shift>
ETNA_INLINE __m256i shifted(__m256i x, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(x, Shift), _mm256_set1_epi8(static_cast<char>(mask)));
}

/// (A load of 32 bytes would wait for four stores of 8.)
ETNA_INLINE __m256i four_u64(const std::uint64_t (&x)[4]) {
  return _mm256_setr_epi64x(static_cast<long long>(x[0]), static_cast<long long>(x[1]), static_cast<long long>(x[2]),
                            static_cast<long long>(x[3]));
}

/// Scales in 256-bit registers, for every x86 with AVX2.
struct ScalesAvx2 {
  template <typename F>
  static ETNA_INLINE F8 f16s(const std::byte* b) {
    return _mm256_cvtph_ps(_mm_set_epi16(bits_at<short>(b + kBlocks<F>[7]), bits_at<short>(b + kBlocks<F>[6]),
                                         bits_at<short>(b + kBlocks<F>[5]), bits_at<short>(b + kBlocks<F>[4]),
                                         bits_at<short>(b + kBlocks<F>[3]), bits_at<short>(b + kBlocks<F>[2]),
                                         bits_at<short>(b + kBlocks<F>[1]), bits_at<short>(b)));
  }
  template <typename F>
  static ETNA_INLINE RunScales f16_pairs(const std::byte* b) {
    const __m256i pairs = _mm256_set_m128i(four_u32<F, 4>(b), four_u32<F, 0>(b));
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i separate = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(pairs, order), 0xd8);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(separate)), _mm256_cvtph_ps(_mm256_extracti128_si256(separate, 1))};
  }
  static ETNA_INLINE F8 f16s_of(std::uint64_t first, std::uint64_t last) {
    return _mm256_cvtph_ps(_mm_set_epi64x(static_cast<long long>(last), static_cast<long long>(first)));
  }
  static ETNA_INLINE F8 f16_everywhere(const std::byte* at) {
    return _mm256_cvtph_ps(_mm_set1_epi16(bits_at<short>(at)));
  }
  static ETNA_INLINE I8 ints(std::uint64_t bytes) {
    return (I8)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
  }

 private:
  /// (GCC 12 passes the arguments of _mm256_set_epi32() through memory, with stores of other widths.)
  template <typename F, std::size_t First>
  static ETNA_INLINE __m128i four_u32(const std::byte* b) {
    constexpr const auto& kAt = kBlocks<F>;
    const __m128i two = _mm_insert_epi32(_mm_cvtsi32_si128(bits_at<int>(b + kAt[First])),  //
                                         bits_at<int>(b + kAt[First + 1]), 1);
    return _mm_insert_epi32(_mm_insert_epi32(two, bits_at<int>(b + kAt[First + 2]), 2),
                            bits_at<int>(b + kAt[First + 3]), 3);
  }
};

/// Transposes eight rows of eight u32s.
ETNA_INLINE void transpose(__m256i (&r)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 2; ++k) {
      b[4 * i + 2 * k] = _mm256_unpacklo_epi64(a[4 * i + k], a[4 * i + k + 2]);
      b[4 * i + 2 * k + 1] = _mm256_unpackhi_epi64(a[4 * i + k], a[4 * i + k + 2]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

/// The zero that is still to be subtracted from the quants of Avx2, besides a format's own minimums.
template <typename F>
inline constexpr int kZeroOf = kTooLarge<F> ? 0 : F::kZero;
template <typename F>
inline constexpr bool kHasMinimums = F::kMinimums || kZeroOf<F> != 0;

/// Quants are unsigned if pairs of products with i8 fit in 16 bits; otherwise kZero is subtracted from them.
struct Avx2 : ScalesAvx2 {
  static constexpr int kRuns = 1;  ///< runs in Quants
  using Quants = __m256i;

  template <typename F, int Run>
  static ETNA_INLINE Quants bytes(const std::byte* b) {
    return load32(b + F::quants_at(Run));
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants nibbles(const std::byte* b) {
    const __m128i x = load16(b + F::quants_at(Run));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(x, 4), x), _mm256_set1_epi8(0xf));
  }
  static ETNA_INLINE Quants by_eights(Quants q) { return _mm256_permute4x64_epi64(q, 0xd8); }
  template <typename F, int Run>
  static ETNA_INLINE Quants with_fifth(const std::byte* b, Quants four) {
    const __m256i set = bytes_of_bits(bits_at<std::uint32_t>(b + F::fifth_at(Run)));
    return _mm256_or_si256(four, _mm256_and_si256(set, _mm256_set1_epi8(16)));
  }
  template <typename F>
  static ETNA_INLINE Quants levels(Quants q) {
    constexpr int kLess = kTooLarge<F> ? F::kZero : 0;
    const __m128i table = _mm_sub_epi8(load16(kLevelsOf<F>.at), _mm_set1_epi8(static_cast<char>(kLess)));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), q);
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants low(const std::byte* b) {
    constexpr Field kLow = F::low(Run);
    return shifted<kLow.shift>(load32(b + kLow.at), (1 << kLow.bits) - 1);
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants with_high(const std::byte* b, Quants q) {
    constexpr Field kHigh = F::high(Run);
    constexpr int kTo = F::low(Run).bits, kRight = kHigh.shift - kTo;
    const __m256i x = load32(b + kHigh.at), moved = kRight > 0   ? _mm256_srli_epi16(x, kRight > 0 ? kRight : 0)
                                                    : kRight < 0 ? _mm256_slli_epi16(x, kRight < 0 ? -kRight : 0)
                                                                 : x;
    const auto mask = static_cast<char>(((1 << kHigh.bits) - 1) << kTo);
    return _mm256_or_si256(q, _mm256_and_si256(moved, _mm256_set1_epi8(mask)));
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants trits(const std::byte* b) {
    if constexpr (Run < 5) {
      constexpr int kPowers[] = {1, 3, 9, 27, 81};
      return digits(times<kPowers[Run]>(load32(b)));
    } else if constexpr (Run < 7) {
      constexpr int kPower = Run == 5 ? 1 : 9;
      const __m256i x = times<kPower>(_mm256_broadcastsi128_si256(load16(b + 32)));
      return digits(_mm256_blend_epi32(x, times<3>(x), 0xf0));
    } else {
      const __m256i middle = times<81>(_mm256_broadcastsi128_si256(load16(b + 32)));
      const __m256i x = _mm256_set1_epi32(bits_at<int>(b + 48));
      const __m256i last = _mm256_blend_epi32(_mm256_blend_epi32(x, times<3>(x), 0x20),
                                              _mm256_blend_epi32(times<9>(x), times<27>(x), 0x80), 0xc0);
      return digits(_mm256_blend_epi32(middle, last, 0xf0));
    }
  }
  template <typename F, int Run>
  static ETNA_INLINE Quants points(const std::byte* b) {
    const auto from = F::points(b, Run);
    const __m256i eights = four_u64(from.eights);
    if constexpr (!F::kSigns) return eights;
    const __m256i negative = bytes_of_bits(from.negative), zero = _mm256_set1_epi8(F::kZero);
    return _mm256_add_epi8(zero, _mm256_sub_epi8(_mm256_xor_si256(eights, negative), negative));
  }

  /// The values of a run are scales · quant - minimums.
  template <typename F>
  static ETNA_INLINE RunScales run_scales(const std::byte* b) {
    RunScales s = F::template scales<Avx2>(b);
    if constexpr (!F::kMinimums)
      s.minimums = s.scales * static_cast<float>(kZeroOf<F>);
    else if constexpr (kZeroOf<F> != 0)
      s.minimums += s.scales * static_cast<float>(kZeroOf<F>);
    return s;
  }
  /// The values of 16 elements are unit · scales · quant - least · minimums.
  struct SmallScales {
    __m256i scales, minimums;  ///< 16 bits each
    __m256 unit, least;        ///< broadcast to all lanes
  };
  template <typename F>
  static ETNA_INLINE SmallScales small_scales(const std::byte* b) {
    const __m256i scales = _mm256_cvtepi8_epi16((__m128i)F::small_scales(b));
    const __m256 unit = f16_everywhere(b + F::kF16.first);
    if constexpr (F::kMinimums) {
      static_assert(F::kZero == 0);
      return {scales, _mm256_cvtepi8_epi16((__m128i)F::small_minimums(b)), unit, f16_everywhere(b + F::kF16.second)};
    } else {
      return {scales, scales, unit, _mm256_mul_ps(unit, _mm256_set1_ps(F::kZero))};
    }
  }

  /// Scales and minimums of 16 elements each: the format's own, or with kZeroOf included.
  template <typename F, bool WithZero>
  static ETNA_INLINE void scales_per_16(const std::byte* b, float (&scales)[kSubs], float (&minimums)[kSubs]) {
    if constexpr (kHasIntegersPer16<F>) {
      const SmallScales own = small_scales<F>(b);
      store_floats(own.scales, own.unit, scales);
      if constexpr (F::kMinimums || WithZero) store_floats(own.minimums, own.least, minimums);
    } else if constexpr (kHasFloatsPer16<F>) {
      const ScalesPer16 own = F::template scales_per_16<Avx2>(b);
      std::memcpy(scales, &own, sizeof own);
      for (int i = 0; WithZero && i < kSubs; ++i) minimums[i] = scales[i] * static_cast<float>(kZeroOf<F>);
    } else {
      const RunScales own = WithZero ? run_scales<F>(b) : F::template scales<Avx2>(b);
      store_twice(own.scales, scales);
      if constexpr (F::kMinimums || WithZero) store_twice(own.minimums, minimums);
    }
  }

 private:
  /// A byte of ones for each bit that is set.
  static ETNA_INLINE __m256i bytes_of_bits(std::uint32_t bits) {
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), place);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
  }
  static ETNA_INLINE void store_twice(__m256 eight, float* to) {
    const __m256 low = _mm256_unpacklo_ps(eight, eight), high = _mm256_unpackhi_ps(eight, eight);
    _mm256_store_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_store_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  /// Stores sixteen 16-bit numbers times a factor.
  static ETNA_INLINE void store_floats(__m256i numbers, __m256 factor, float* to) {
    const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(numbers)),
                  high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(numbers, 1));
    _mm256_store_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(low), factor));
    _mm256_store_ps(to + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), factor));
  }
  /// Multiplies each byte by a power of 3.
  template <int Power>
  static ETNA_INLINE __m256i times(__m256i x) {
    if constexpr (Power == 1)
      return x;
    else
      return times<Power / 3>(_mm256_add_epi8(x, _mm256_add_epi8(x, x)));
  }
  /// The leading base-3 digits of fractions (of 256).
  static ETNA_INLINE __m256i digits(__m256i x) {
    const __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8(86)), x);
    const __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8(static_cast<char>(171))), x);
    return _mm256_abs_epi8(_mm256_add_epi8(one, two));
  }
};

}  // namespace etna::quant
