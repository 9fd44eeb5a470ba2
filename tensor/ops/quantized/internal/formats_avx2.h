#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <type_traits>

#include <etna/tensor/ops/quantized/internal/packed_formats.h>

/// Block formats in registers of AVX2: codes of 32 elements, and the scales and minimums of 256. Internal.
#define ETNA_TARGET __attribute__((target("avx2,fma,f16c")))
#define ETNA_BF16_TARGET ETNA_TARGET
#define ETNA_LAMBDA __attribute__((target("avx2,fma,f16c"), always_inline))

namespace etna::quantized::avx2 {

template <typename F, typename... G>
inline constexpr bool kIs = (std::is_same_v<F, G> || ...);

/// Formats of which codes_of() gives values with a sign: the instruction takes bytes up to 127 only.
template <typename F>
constexpr bool has_signs() {
  if constexpr (kIntegers<F>) return F::kBits == 8;
  return kIs<F, Q8_0, IQ4_NL, IQ4_XS>;
}
template <typename F>
inline constexpr bool kSigned = has_signs<F>();
/// Formats of which the minimums of steps_of() are not all 0.
template <typename F>
constexpr bool has_minimums() {
  if constexpr (kIntegers<F>) return F::kBits == 4 || F::kZeroPoint;
  return !kSigned<F>;
}
template <typename F>
inline constexpr bool kMinimums = has_minimums<F>();
/// Formats with a scale for each 16 elements, which are whole numbers; others have one for each 32.
template <typename F>
inline constexpr bool kSixteens = kIs<F, Q6_K, Q3_K, Q2_K>;

ETNA_TARGET ETNA_INLINE __m128i load16(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
ETNA_TARGET ETNA_INLINE __m256i load32(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
template <typename T>
ETNA_TARGET ETNA_INLINE T bits_at(const std::byte* from) {
  T bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}
template <int Shift>
ETNA_TARGET ETNA_INLINE __m256i shifted(__m256i x, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(x, Shift), _mm256_set1_epi8(static_cast<char>(mask)));
}
/// Some bits of each byte, moved from place From to place To.
template <int From, int To>
ETNA_TARGET ETNA_INLINE __m256i moved(__m256i x, int bits) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(bits << To));
  if constexpr (From == To) return _mm256_and_si256(x, mask);
  if constexpr (From > To) return _mm256_and_si256(_mm256_srli_epi16(x, From - To), mask);
  return _mm256_and_si256(_mm256_slli_epi16(x, std::max(0, To - From)), mask);
}
/// The low halves of 16 bytes, then the high ones.
ETNA_TARGET ETNA_INLINE __m256i nibbles_of(__m128i x) {
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(x, 4), x), _mm256_set1_epi8(0xf));
}
ETNA_TARGET ETNA_INLINE __m256i looked_up(const std::uint8_t* table, int less, __m256i codes) {
  const __m128i levels =
      _mm_sub_epi8(_mm_load_si128(reinterpret_cast<const __m128i*>(table)), _mm_set1_epi8(static_cast<char>(less)));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), codes);
}
/// `value` where a byte has the bit.
ETNA_TARGET ETNA_INLINE __m256i where_bit(__m256i bytes, __m256i bit, int value) {
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit),
                          _mm256_set1_epi8(static_cast<char>(value)));
}
/// Each byte times a power of 3.
template <int Power>
ETNA_TARGET ETNA_INLINE __m256i times(__m256i x) {
  if constexpr (Power == 1)
    return x;
  else
    return times<Power / 3>(_mm256_add_epi8(x, _mm256_add_epi8(x, x)));
}
/// The digits in base 3 that fractions (of 256) begin with.
ETNA_TARGET ETNA_INLINE __m256i trits(__m256i x) {
  const __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8(86)), x);
  const __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8(static_cast<char>(171))), x);
  return _mm256_abs_epi8(_mm256_add_epi8(one, two));
}

/// Codes 32 c ... 32 c + 31 of a group.
template <typename F, int C>
ETNA_TARGET ETNA_INLINE __m256i codes_of(const std::byte* b) {
  constexpr int kHalf = C / 4, kQuarter = C % 4;
  const std::byte* own = b + C * F::kBytes;  // of formats of 32
  if constexpr (kIntegers<F>) {
    if constexpr (F::kBits == 8) return load32(b + F::codes_at(C));
    return nibbles_of(load16(b + F::codes_at(C)));
  } else if constexpr (kIs<F, Q8_0>) {
    return load32(own + 2);
  } else if constexpr (kIs<F, Q4_0>) {
    return nibbles_of(load16(own + 2));
  } else if constexpr (kIs<F, Q4_1>) {
    return nibbles_of(load16(own + 4));
  } else if constexpr (kIs<F, IQ4_NL>) {
    return looked_up(kLevels, 127, nibbles_of(load16(own + 2)));
  } else if constexpr (kIs<F, MXFP4>) {
    return looked_up(kMicroLevels, 0, nibbles_of(load16(own + 1)));
  } else if constexpr (kIs<F, IQ4_XS>) {
    return looked_up(kLevels, 127, nibbles_of(load16(b + 8 + 16 * C)));
  } else if constexpr (kIs<F, Q5_0, Q5_1>) {
    constexpr int kAt = kIs<F, Q5_1> ? 4 : 2;
    const __m256i fifth = _mm256_set1_epi32(bits_at<int>(own + kAt));
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    return _mm256_or_si256(nibbles_of(load16(own + kAt + 4)), where_bit(_mm256_shuffle_epi8(fifth, place), bit, 16));
  } else if constexpr (kIs<F, Q4_K>) {
    return shifted<C % 2 * 4>(load32(b + 16 + 32 * (C / 2)), 0xf);
  } else if constexpr (kIs<F, Q5_K>) {
    return _mm256_or_si256(shifted<C % 2 * 4>(load32(b + 48 + 32 * (C / 2)), 0xf), moved<C, 4>(load32(b + 16), 1));
  } else if constexpr (kIs<F, Q6_K>) {
    const __m256i low = shifted<kQuarter / 2 * 4>(load32(b + 64 * kHalf + 32 * (kQuarter % 2)), 0xf);
    return _mm256_or_si256(low, moved<2 * kQuarter, 4>(load32(b + 128 + 32 * kHalf), 3));
  } else if constexpr (kIs<F, Q2_K>) {
    return shifted<2 * kQuarter>(load32(b + 16 + 32 * kHalf), 3);
  } else if constexpr (kIs<F, TQ2_0>) {
    return shifted<2 * kQuarter>(load32(b + 32 * kHalf), 3);
  } else if constexpr (kIs<F, I2_S>) {
    return shifted<6 - 2 * kQuarter>(load32(b + 32 * kHalf), 3);
  } else if constexpr (kIs<F, Q3_K>) {
    return _mm256_or_si256(shifted<2 * kQuarter>(load32(b + 32 + 32 * kHalf), 3), moved<C, 2>(load32(b), 1));
  } else {
    static_assert(kIs<F, TQ1_0>);
    if constexpr (C < 5) {
      constexpr int kPower = C == 0 ? 1 : C == 1 ? 3 : C == 2 ? 9 : C == 3 ? 27 : 81;
      return trits(times<kPower>(load32(b)));
    } else if constexpr (C < 7) {
      const __m256i x = times < C == 5 ? 1 : 9 > (_mm256_broadcastsi128_si256(load16(b + 32)));
      return trits(_mm256_blend_epi32(x, times<3>(x), 0xf0));
    } else {
      const __m256i middle = times<81>(_mm256_broadcastsi128_si256(load16(b + 32)));
      const __m256i x = _mm256_set1_epi32(bits_at<int>(b + 48));
      const __m256i last = _mm256_blend_epi32(_mm256_blend_epi32(x, times<3>(x), 0x20),
                                              _mm256_blend_epi32(times<9>(x), times<27>(x), 0x80), 0xc0);
      return trits(_mm256_blend_epi32(middle, last, 0xf0));
    }
  }
}
/// Values of 8 sub-blocks of 32 are scales · code - minimums.
struct Steps {
  __m256 scales, minimums;
};
/// Values of 16 sub-blocks are unit · scales · code - least · minimums.
struct WholeSteps {
  __m256i scales, minimums;  ///< 16 bits each
  __m256 unit, least;        ///< the same in all lanes
};

ETNA_TARGET ETNA_INLINE __m256 half_everywhere(const std::byte* from) {
  return _mm256_cvtph_ps(_mm_set1_epi16(bits_at<short>(from)));
}
/// Minimums of a format whose code for 0 is `zero`; of one with signs, 0.
ETNA_TARGET ETNA_INLINE Steps around(__m256 scales, float zero) {
  return {scales, _mm256_mul_ps(scales, _mm256_set1_ps(zero))};
}
/// Eight bytes of two words, as floats. (Words are taken apart by scalars: units for vectors are what is short.)
ETNA_TARGET ETNA_INLINE __m256 floats_of_bytes(std::uint32_t low, std::uint32_t high) {
  const auto bytes = static_cast<long long>(static_cast<std::uint64_t>(high) << 32 | low);
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes)));
}

/// Words that lie some bytes apart. (GCC 12 sends what _mm256_set_epi32() gets through memory in other widths.)
template <int Step>
ETNA_TARGET ETNA_INLINE __m128i four_words(const std::byte* from) {
  const __m128i two = _mm_insert_epi32(_mm_cvtsi32_si128(bits_at<int>(from)), bits_at<int>(from + Step), 1);
  return _mm_insert_epi32(_mm_insert_epi32(two, bits_at<int>(from + 2 * Step), 2), bits_at<int>(from + 3 * Step), 3);
}

/// Halves of the blocks that eight runs of integers lie in.
template <typename F>
ETNA_TARGET ETNA_INLINE __m256 halves_of_runs(const std::byte* b) {
  return _mm256_cvtph_ps(_mm_set_epi16(bits_at<short>(b + F::block(7)), bits_at<short>(b + F::block(6)),
                                       bits_at<short>(b + F::block(5)), bits_at<short>(b + F::block(4)),
                                       bits_at<short>(b + F::block(3)), bits_at<short>(b + F::block(2)),
                                       bits_at<short>(b + F::block(1)), bits_at<short>(b)));
}

/// Scales in registers: what F::scales() stores is reloaded in other widths, which waits for the stores.
template <typename F>
ETNA_TARGET ETNA_INLINE Steps steps_of(const std::byte* b) {
  constexpr int kB = F::kBytes;
  if constexpr (kIntegers<F>) {
    const __m256 scales = halves_of_runs<F>(b);
    if constexpr (F::kZeroPoint) return {scales, _mm256_mul_ps(scales, halves_of_runs<F>(b + 2))};
    return around(scales, F::kBits == 8 ? 0 : 8);
  } else if constexpr (kIs<F, Q8_0, Q4_0, Q5_0, IQ4_NL>) {
    const __m128i d = _mm_set_epi16(bits_at<short>(b + 7 * kB), bits_at<short>(b + 6 * kB), bits_at<short>(b + 5 * kB),
                                    bits_at<short>(b + 4 * kB), bits_at<short>(b + 3 * kB), bits_at<short>(b + 2 * kB),
                                    bits_at<short>(b + kB), bits_at<short>(b));
    return around(_mm256_cvtph_ps(d), kIs<F, Q4_0> ? 8 : kIs<F, Q5_0> ? 16 : 0);
  } else if constexpr (kIs<F, Q4_1, Q5_1>) {
    const __m256i pairs = _mm256_set_m128i(four_words<kB>(b + 4 * kB), four_words<kB>(b));
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i apart = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(pairs, order), 0xd8);
    const __m256 minus = _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(apart)), _mm256_sub_ps(_mm256_setzero_ps(), minus)};
  } else if constexpr (kIs<F, MXFP4>) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(micro_exponents(b))));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i power = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    return around(_mm256_castsi256_ps(power), 12);
  } else if constexpr (kIs<F, Q4_K, Q5_K>) {
    const std::uint32_t x = bits_at<std::uint32_t>(b + 4), y = bits_at<std::uint32_t>(b + 8),
                        z = bits_at<std::uint32_t>(b + 12);
    // d, dmin, d, dmin ...
    const __m256 both = _mm256_cvtph_ps(_mm_castps_si128(_mm_broadcast_ss(reinterpret_cast<const float*>(b))));
    const __m256 scales = floats_of_bytes(x & 0x3f3f3f3fu, (z & 0x0f0f0f0fu) | (x >> 2 & 0x30303030u));
    const __m256 minimums = floats_of_bytes(y & 0x3f3f3f3fu, (z >> 4 & 0x0f0f0f0fu) | (y >> 2 & 0x30303030u));
    return {_mm256_mul_ps(scales, _mm256_moveldup_ps(both)), _mm256_mul_ps(minimums, _mm256_movehdup_ps(both))};
  } else if constexpr (kIs<F, IQ4_XS>) {
    const __m256i low =
        _mm256_srlv_epi32(_mm256_set1_epi32(bits_at<int>(b + 4)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(bits_at<std::uint16_t>(b + 2) << 4),
                                           _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i six =
        _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xf)), _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
    const __m256 scales = _mm256_cvtepi32_ps(_mm256_sub_epi32(six, _mm256_set1_epi32(32)));
    return around(_mm256_mul_ps(scales, half_everywhere(b)), 0);
  } else {
    static_assert(kIs<F, TQ1_0, TQ2_0, I2_S>);
    if constexpr (kIs<F, I2_S>) return around(_mm256_set1_ps(1), 1);
    return around(half_everywhere(b + (kIs<F, TQ1_0> ? 52 : 64)), 1);
  }
}

template <typename F>
ETNA_TARGET ETNA_INLINE WholeSteps whole_steps_of(const std::byte* b) {
  if constexpr (kIs<F, Q2_K>) {
    const __m128i bytes = load16(b), mask = _mm_set1_epi8(0xf);
    return {_mm256_cvtepi8_epi16(_mm_and_si128(bytes, mask)),
            _mm256_cvtepi8_epi16(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask)), half_everywhere(b + 80),
            half_everywhere(b + 82)};
  } else {
    __m128i bytes;
    if constexpr (kIs<F, Q6_K>) {
      bytes = load16(b + 192);
    } else {
      static_assert(kIs<F, Q3_K>);
      const std::uint32_t x = bits_at<std::uint32_t>(b + 96), y = bits_at<std::uint32_t>(b + 100),
                          z = bits_at<std::uint32_t>(b + 104);
      const auto four = [](std::uint32_t low, std::uint32_t high)
                            ETNA_LAMBDA { return static_cast<int>((low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4); };
      const __m128i six = _mm_setr_epi32(four(x, z), four(y, z >> 2), four(x >> 4, z >> 4), four(y >> 4, z >> 6));
      bytes = _mm_sub_epi8(six, _mm_set1_epi8(32));
    }
    const __m256i scales = _mm256_cvtepi8_epi16(bytes);
    const __m256 unit = half_everywhere(b + (kIs<F, Q6_K> ? 208 : 108));
    return {scales, scales, unit, _mm256_mul_ps(unit, _mm256_set1_ps(kIs<F, Q6_K> ? 32 : 4))};
  }
}

}  // namespace etna::quantized::avx2

#endif
