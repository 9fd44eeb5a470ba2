#pragma once

#include <etna/tensor/quant/internal/vector_avx2.h>

/// Runs and scales of a group in AVX-512 registers. Include and use this only where functions are compiled for AVX-512
/// VNNI. Internal.
namespace etna::quant {

/// A compile-time constant for each 32-bit lane.
struct Lanes {
  alignas(64) std::uint32_t values[16];
  template <typename Of>
  constexpr explicit Lanes(Of of) : values() {
    for (int i = 0; i < 16; ++i) values[i] = static_cast<std::uint32_t>(of(i));
  }
};
ETNA_INLINE __m512i in(const Lanes& lanes) { return _mm512_load_si512(lanes.values); }

ETNA_INLINE __m512i sixteen_everywhere(const std::byte* from) { return _mm512_broadcast_i32x4(load16(from)); }
/// Broadcasts 32 bytes to both halves.
ETNA_INLINE __m512i twice(const std::byte* from) { return _mm512_broadcast_i64x4(load32(from)); }
ETNA_INLINE __m512i joined(__m256i lower, __m256i upper) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}
/// 16-bit lanes with one number in the lower half of the register and another in the upper.
ETNA_INLINE __m512i halves(int lower, int upper) {
  return joined(_mm256_set1_epi16(static_cast<short>(lower)), _mm256_set1_epi16(static_cast<short>(upper)));
}
ETNA_INLINE __m512i masked(__m512i x, int mask) {
  return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(mask)));
}

/// Transposes sixteen rows of sixteen u32s.
ETNA_INLINE void transpose(__m512i (&r)[16]) {
  __m512i s[16];
  for (int i = 0; i < 8; ++i) {
    s[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  // u32s 0, 1, 2 and 3 of each 128-bit lane, of four rows.
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(s[4 * i + 1], s[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(s[4 * i + 1], s[4 * i + 3]);
  }
  // Lanes of four times four rows.
  for (int word = 0; word < 4; ++word) {
    const __m512i even_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0x88),
                  even_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0x88),
                  odd_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0xdd),
                  odd_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0xdd);
    s[word] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    s[word + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    s[word + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    s[word + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = s[i];
}

/// Two runs at a time, with unsigned quants.
struct Avx512 : ScalesAvx2 {
  static constexpr int kRuns = 2;  ///< runs in Quants
  using Quants = __m512i;

  template <typename F, int C>
  static ETNA_INLINE Quants bytes(const std::byte* b) {
    const __m512i both = joined(load32(b + F::quants_at(2 * C)), load32(b + F::quants_at(2 * C + 1)));
    return _mm512_xor_si512(both, _mm512_set1_epi8(-128));
  }
  template <typename F, int C>
  static ETNA_INLINE Quants nibbles(const std::byte* b) {
    const __m512i x = joined(_mm256_broadcastsi128_si256(load16(b + F::quants_at(2 * C))),
                             _mm256_broadcastsi128_si256(load16(b + F::quants_at(2 * C + 1))));
    constexpr long long kFour = 0x0004000400040004;
    return masked(_mm512_srlv_epi16(x, _mm512_set_epi64(kFour, kFour, 0, 0, kFour, kFour, 0, 0)), 0xf);
  }
  static ETNA_INLINE Quants by_eights(Quants q) { return _mm512_permutex_epi64(q, 0xd8); }
  template <typename F, int C>
  static ETNA_INLINE Quants with_fifth(const std::byte* b, Quants four) {
    const std::uint64_t low = bits_at<std::uint32_t>(b + F::fifth_at(2 * C)),
                        high = bits_at<std::uint32_t>(b + F::fifth_at(2 * C + 1));
    return _mm512_mask_add_epi8(four, low | high << 32, four, _mm512_set1_epi8(16));
  }
  template <typename F>
  static ETNA_INLINE Quants levels(Quants q) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load16(kLevelsOf<F>.at)), q);
  }
  template <typename F, int C>
  static ETNA_INLINE Quants low(const std::byte* b) {
    constexpr Field kFirst = F::low(2 * C), kSecond = F::low(2 * C + 1);
    return field<kFirst.at, kFirst.shift, kSecond.at, kSecond.shift, kFirst.bits>(b);
  }
  template <typename F, int C>
  static ETNA_INLINE Quants with_high(const std::byte* b, Quants q) {
    constexpr Field kFirst = F::high(2 * C), kSecond = F::high(2 * C + 1);
    constexpr int kTo = F::low(2 * C).bits;
    if constexpr (kFirst.bits == 1) {
      static_assert(kFirst.at == kSecond.at);
      const __m512i bits = joined(_mm256_set1_epi8(static_cast<char>(1 << kFirst.shift)),
                                  _mm256_set1_epi8(static_cast<char>(1 << kSecond.shift)));
      const __mmask64 set = _mm512_test_epi8_mask(twice(b + kFirst.at), bits);
      return _mm512_mask_add_epi8(q, set, q, _mm512_set1_epi8(1 << kTo));
    } else {
      const __m512i high = field<kFirst.at, kFirst.shift, kSecond.at, kSecond.shift, kFirst.bits>(b);
      return _mm512_or_si512(q, _mm512_slli_epi16(high, kTo));
    }
  }
  template <typename F, int C>
  static ETNA_INLINE Quants trits(const std::byte* b) {
    if constexpr (C == 0) return digits(twice(b), powers<1, 1, 3, 3>());
    if constexpr (C == 1) return digits(twice(b), powers<9, 9, 27, 27>());
    const __m512i middle = sixteen_everywhere(b + 32);
    if constexpr (C == 2) return digits(_mm512_inserti64x4(middle, load32(b), 0), powers<81, 81, 1, 3>());
    const __m512i last = _mm512_inserti32x4(middle, _mm_set1_epi32(bits_at<int>(b + 48)), 3);
    const __m512i first = powers<9, 27, 81, 0>();
    const __m512i each = _mm512_inserti32x4(first, _mm_set_epi16(27, 27, 9, 9, 3, 3, 1, 1), 3);
    return digits(last, each);
  }
  template <typename F, int C>
  static ETNA_INLINE Quants points(const std::byte* b) {
    const auto first = F::points(b, 2 * C), second = F::points(b, 2 * C + 1);
    const __m512i eights = joined(four_u64(first.eights), four_u64(second.eights));
    if constexpr (!F::kSigns) return eights;
    const __mmask64 negative = first.negative | static_cast<std::uint64_t>(second.negative) << 32;
    const __m512i zero = _mm512_set1_epi8(F::kZero);
    return _mm512_mask_sub_epi8(_mm512_add_epi8(zero, eights), negative, zero, eights);
  }

  /// The values of 16 elements are scales · quant - minimums.
  struct Scales {
    __m512 scales, minimums;
  };
  template <typename F>
  static ETNA_INLINE Scales scales(const std::byte* b) {
    Scales s;
    if constexpr (kHasIntegersPer16<F>) {
      s.scales = floats(F::small_scales(b), b + F::kF16.first);
      if constexpr (F::kMinimums) s.minimums = floats(F::small_minimums(b), b + F::kF16.second);
    } else if constexpr (kHasFloatsPer16<F>) {
      const ScalesPer16 all = F::template scales_per_16<Avx512>(b);
      s.scales = _mm512_insertf32x8(_mm512_castps256_ps512(all.first), all.last, 1);
    } else if constexpr (kHasOneScale<F>) {
      s.scales = everywhere(b + F::kF16.first);
    } else {
      const RunScales runs = F::template scales<Avx512>(b);
      s.scales = doubled(runs.scales);
      if constexpr (F::kMinimums) s.minimums = doubled(runs.minimums);
    }
    if constexpr (F::kMinimums && F::kZero == 0) return s;
    const __m512 zero = _mm512_mul_ps(s.scales, _mm512_set1_ps(F::kZero));
    if constexpr (F::kMinimums)
      s.minimums = _mm512_add_ps(s.minimums, zero);
    else
      s.minimums = zero;
    return s;
  }

 private:
  /// Eight values, each twice.
  static ETNA_INLINE __m512 doubled(F8 eight) {
    static constexpr Lanes kTwice([](int i) { return i / 2; });
    return _mm512_permutexvar_ps(in(kTwice), _mm512_castps256_ps512(eight));
  }
  static ETNA_INLINE __m512 everywhere(const std::byte* f16) {
    return _mm512_cvtph_ps(_mm256_set1_epi16(bits_at<short>(f16)));
  }
  static ETNA_INLINE __m512 floats(B16 small, const std::byte* unit) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)small)), everywhere(unit));
  }
  /// The fields of two runs. Shared bytes are loaded once, adjacent ones by one load.
  template <int At, int Shift, int NextAt, int NextShift, int Bits>
  static ETNA_INLINE __m512i field(const std::byte* b) {
    constexpr int kMask = (1 << Bits) - 1;
    if constexpr (At == NextAt)
      return masked(_mm512_srlv_epi16(twice(b + At), halves(Shift, NextShift)), kMask);
    else if constexpr (Shift == NextShift && At + 32 == NextAt)
      return masked(_mm512_srli_epi16(_mm512_loadu_si512(b + At), Shift), kMask);
    else
      return masked(_mm512_srlv_epi16(joined(load32(b + At), load32(b + NextAt)), halves(Shift, NextShift)), kMask);
  }
  /// A constant for each 128-bit lane.
  template <int A, int B, int C, int D>
  static ETNA_INLINE __m512i powers() {
    return joined(_mm256_set_m128i(_mm_set1_epi16(B), _mm_set1_epi16(A)),
                  _mm256_set_m128i(_mm_set1_epi16(D), _mm_set1_epi16(C)));
  }
  /// The leading base-3 digits of bytes times powers of 3: a byte is the fraction 0.quant quant ... times 256.
  static ETNA_INLINE __m512i digits(__m512i bytes, __m512i powers) {
    const __m512i odd_places = _mm512_set1_epi16(static_cast<short>(0xff00));
    const __m512i even = _mm512_mullo_epi16(bytes, powers);
    const __m512i odd = _mm512_mullo_epi16(_mm512_and_si512(bytes, odd_places), powers);
    const __m512i fraction = _mm512_ternarylogic_epi32(odd_places, odd, even, 0xca), one = _mm512_set1_epi8(1);
    const __m512i first = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(fraction, _mm512_set1_epi8(86)), one);
    const __mmask64 two = _mm512_cmpge_epu8_mask(fraction, _mm512_set1_epi8(static_cast<char>(171)));
    return _mm512_mask_add_epi8(first, two, first, one);
  }
};

}  // namespace etna::quant
