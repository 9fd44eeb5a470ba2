#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <type_traits>

#include <etna/tensor/ops/quantized/internal/packed_formats.h>

/// Block formats in registers of AVX-512: codes of 64 elements, and the scales and minimums of 256. Internal.
#define ETNA_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#define ETNA_BF16_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")))
#define ETNA_LAMBDA \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"), always_inline))

namespace etna::quantized::avx512 {

template <typename F, typename... G>
inline constexpr bool kIs = (std::is_same_v<F, G> || ...);

ETNA_TARGET ETNA_INLINE __m512i both_halves(const std::byte* from) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
/// Shifts the bytes of the lower and of the upper half right, and keeps the bits of a mask.
ETNA_TARGET ETNA_INLINE __m512i shifted(__m512i x, int lower, int upper, int mask) {
  const __m512i by =
      _mm512_inserti64x4(_mm512_set1_epi16(static_cast<short>(lower)), _mm256_set1_epi16(static_cast<short>(upper)), 1);
  return _mm512_and_si512(_mm512_srlv_epi16(x, by), _mm512_set1_epi8(static_cast<char>(mask)));
}
/// 64 codes of four bits from two runs of 16 bytes: low halves, then high ones, of each.
ETNA_TARGET ETNA_INLINE __m512i two_nibbles(const std::byte* a, const std::byte* b) {
  const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)));
  const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
  const __m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  const __m512i by =
      _mm512_set_epi64(0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0);
  return _mm512_and_si512(_mm512_srlv_epi16(x, by), _mm512_set1_epi8(0xf));
}
ETNA_TARGET ETNA_INLINE __m512i looked_up(const std::uint8_t* table, __m512i codes) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))), codes);
}

ETNA_TARGET ETNA_INLINE __m512i sixteen_bytes(const std::byte* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
ETNA_TARGET ETNA_INLINE short half_bits(const std::byte* from) {
  short bits;
  std::memcpy(&bits, from, 2);
  return bits;
}
ETNA_TARGET ETNA_INLINE int four_bytes(const std::byte* from) {
  int bits;
  std::memcpy(&bits, from, 4);
  return bits;
}
/// The digits in base 3 that bytes times powers of 3 begin with: a byte is the fraction 0.code code code ... times 256.
ETNA_TARGET ETNA_INLINE __m512i trits(__m512i bytes, __m512i powers) {
  const __m512i odd_places = _mm512_set1_epi16(static_cast<short>(0xff00));
  const __m512i even = _mm512_mullo_epi16(bytes, powers);
  const __m512i odd = _mm512_mullo_epi16(_mm512_and_si512(bytes, odd_places), powers);
  const __m512i fraction = _mm512_ternarylogic_epi32(odd_places, odd, even, 0xca), one = _mm512_set1_epi8(1);
  const __m512i first = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(fraction, _mm512_set1_epi8(86)), one);
  return _mm512_mask_add_epi8(first, _mm512_cmpge_epu8_mask(fraction, _mm512_set1_epi8(static_cast<char>(171))), first,
                              one);
}

/// Codes 64 c ... 64 c + 63 of a group.
template <typename F, int C>
ETNA_TARGET ETNA_INLINE __m512i codes_of(const std::byte* b) {
  constexpr int kHalf = C / 2, kOdd = C % 2;
  if constexpr (kIntegers<F>) {
    constexpr int kFirst = F::codes_at(2 * C), kSecond = F::codes_at(2 * C + 1);
    if constexpr (F::kBits == 4) return two_nibbles(b + kFirst, b + kSecond);
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kFirst));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kSecond));
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1), _mm512_set1_epi8(-128));
  } else if constexpr (kIs<F, Q8_0>) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 68 * C + 2));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 68 * C + 36));
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1), _mm512_set1_epi8(-128));
  } else if constexpr (kIs<F, Q4_0, Q4_1, IQ4_NL, MXFP4>) {
    constexpr int kAt = kIs<F, Q4_1> ? 4 : kIs<F, MXFP4> ? 1 : 2;
    const __m512i four = two_nibbles(b + F::kBytes * (2 * C) + kAt, b + F::kBytes * (2 * C + 1) + kAt);
    if constexpr (kIs<F, IQ4_NL>) return looked_up(kLevels, four);
    if constexpr (kIs<F, MXFP4>) return looked_up(kMicroLevels, four);
    return four;
  } else if constexpr (kIs<F, Q5_0, Q5_1>) {
    constexpr int kAt = kIs<F, Q5_1> ? 4 : 2;
    const std::byte *first = b + F::kBytes * (2 * C) + kAt, *second = b + F::kBytes * (2 * C + 1) + kAt;
    std::uint32_t low, high;
    std::memcpy(&low, first, 4);
    std::memcpy(&high, second, 4);
    const __m512i four = two_nibbles(first + 4, second + 4);
    return _mm512_mask_add_epi8(four, low | static_cast<std::uint64_t>(high) << 32, four, _mm512_set1_epi8(16));
  } else if constexpr (kIs<F, IQ4_XS>) {
    return looked_up(kLevels, two_nibbles(b + 8 + 32 * C, b + 24 + 32 * C));
  } else if constexpr (kIs<F, Q4_K>) {
    return shifted(both_halves(b + 16 + 32 * C), 0, 4, 0xf);
  } else if constexpr (kIs<F, Q5_K>) {
    const __m512i four = shifted(both_halves(b + 48 + 32 * C), 0, 4, 0xf);
    const __m512i bits = _mm512_inserti64x4(_mm512_set1_epi8(static_cast<char>(1 << (2 * C))),
                                            _mm256_set1_epi8(static_cast<char>(2 << (2 * C))), 1);
    return _mm512_mask_add_epi8(four, _mm512_test_epi8_mask(both_halves(b + 16), bits), four, _mm512_set1_epi8(16));
  } else if constexpr (kIs<F, Q6_K>) {
    const __m512i bytes = _mm512_loadu_si512(b + 64 * kHalf);
    const __m512i low = _mm512_and_si512(kOdd != 0 ? _mm512_srli_epi16(bytes, 4) : bytes, _mm512_set1_epi8(0xf));
    const __m512i high = shifted(both_halves(b + 128 + 32 * kHalf), 4 * kOdd, 4 * kOdd + 2, 3);
    return _mm512_or_si512(low, _mm512_slli_epi16(high, 4));
  } else if constexpr (kIs<F, Q2_K>) {
    return shifted(both_halves(b + 16 + 32 * kHalf), 4 * kOdd, 4 * kOdd + 2, 3);
  } else if constexpr (kIs<F, TQ2_0>) {
    return shifted(both_halves(b + 32 * kHalf), 4 * kOdd, 4 * kOdd + 2, 3);
  } else if constexpr (kIs<F, I2_S>) {
    return shifted(both_halves(b + 32 * kHalf), 6 - 4 * kOdd, 4 - 4 * kOdd, 3);
  } else if constexpr (kIs<F, Q3_K>) {
    const __m512i two = shifted(both_halves(b + 32 + 32 * kHalf), 4 * kOdd, 4 * kOdd + 2, 3);
    const __m512i bits = _mm512_inserti64x4(_mm512_set1_epi8(static_cast<char>(1 << (2 * C))),
                                            _mm256_set1_epi8(static_cast<char>(2 << (2 * C))), 1);
    return _mm512_mask_add_epi8(two, _mm512_test_epi8_mask(both_halves(b), bits), two, _mm512_set1_epi8(4));
  } else {
    static_assert(kIs<F, TQ1_0>);
    const auto powers = [](int a, int c, int e, int f) ETNA_LAMBDA {
      return _mm512_inserti64x4(
          _mm512_castsi256_si512(
              _mm256_set_m128i(_mm_set1_epi16(static_cast<short>(c)), _mm_set1_epi16(static_cast<short>(a)))),
          _mm256_set_m128i(_mm_set1_epi16(static_cast<short>(f)), _mm_set1_epi16(static_cast<short>(e))), 1);
    };
    if constexpr (C == 0) return trits(both_halves(b), powers(1, 1, 3, 3));
    if constexpr (C == 1) return trits(both_halves(b), powers(9, 9, 27, 27));
    const __m512i middle = sixteen_bytes(b + 32);
    if constexpr (C == 2) {
      const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      return trits(_mm512_inserti64x4(middle, first, 0), powers(81, 81, 1, 3));
    }
    const __m512i last = _mm512_inserti32x4(middle, _mm_set1_epi32(four_bytes(b + 48)), 3);
    const __m512i each = _mm512_inserti32x4(powers(9, 27, 81, 0), _mm_set_epi16(27, 27, 9, 9, 3, 3, 1, 1), 3);
    return trits(last, each);
  }
}

/// Values of 16 sub-blocks are scales · code - minimums.
struct Steps {
  __m512 scales, minimums;
};

/// For each lane of 32 bits, the number of a byte of 16 at its lowest byte, or at its second where `Raised`.
template <bool Raised>
struct Places {
  alignas(64) std::uint8_t bytes[64];
  template <typename Of>
  constexpr explicit Places(Of of) : bytes() {
    for (int i = 0; i < 64; ++i) bytes[i] = i % 4 == (Raised ? 1 : 0) ? static_cast<std::uint8_t>(of(i / 4)) : 0x80;
  }
};
struct Lanes {
  alignas(64) std::uint32_t values[16];
  template <typename Of>
  constexpr explicit Lanes(Of of) : values() {
    for (int i = 0; i < 16; ++i) values[i] = static_cast<std::uint32_t>(of(i));
  }
};
ETNA_TARGET ETNA_INLINE __m512i in(const Lanes& lanes) { return _mm512_load_si512(lanes.values); }
template <bool Raised>
ETNA_TARGET ETNA_INLINE __m512i picked(__m512i bytes, const Places<Raised>& places) {
  return _mm512_shuffle_epi8(bytes, _mm512_load_si512(places.bytes));
}
/// a | (b & mask)
ETNA_TARGET ETNA_INLINE __m512i with_bits(__m512i a, __m512i b, int mask) {
  return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi32(mask), 0xf8);
}
ETNA_TARGET ETNA_INLINE __m512 half_everywhere(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_set1_epi16(half_bits(from)));
}
/// Eight values, each twice.
ETNA_TARGET ETNA_INLINE __m512 doubled(__m256 eight) {
  static constexpr Lanes kTwice([](int i) { return i / 2; });
  return _mm512_permutexvar_ps(in(kTwice), _mm512_castps256_ps512(eight));
}
/// The lower eight values, each twice, and the upper eight.
ETNA_TARGET ETNA_INLINE Steps halves_doubled(__m512 both) {
  static constexpr Lanes kLower([](int i) { return i / 2; }), kUpper([](int i) { return 8 + i / 2; });
  return {_mm512_permutexvar_ps(in(kLower), both), _mm512_permutexvar_ps(in(kUpper), both)};
}
ETNA_TARGET ETNA_INLINE Steps around(__m512 scales, float zero) {
  return {scales, _mm512_mul_ps(scales, _mm512_set1_ps(zero))};
}

/// Scales in registers: what F::scales() stores is reloaded in other widths, which waits for the stores.
template <typename F>
ETNA_TARGET ETNA_INLINE Steps steps_of(const std::byte* b) {
  constexpr int kB = F::kBytes;
  if constexpr (kIntegers<F>) {
    const auto halves = [](const std::byte* at) ETNA_LAMBDA {
      return doubled(_mm256_cvtph_ps(_mm_set_epi16(half_bits(at + F::block(7)), half_bits(at + F::block(6)),
                                                   half_bits(at + F::block(5)), half_bits(at + F::block(4)),
                                                   half_bits(at + F::block(3)), half_bits(at + F::block(2)),
                                                   half_bits(at + F::block(1)), half_bits(at))));
    };
    constexpr float kZero = F::kBits == 8 ? 128 : F::kZeroPoint ? 0 : 8;
    const __m512 scales = halves(b);
    if constexpr (F::kZeroPoint)
      return {scales, _mm512_mul_ps(scales, _mm512_add_ps(halves(b + 2), _mm512_set1_ps(kZero)))};
    return around(scales, kZero);
  } else if constexpr (kIs<F, Q8_0, Q4_0, Q5_0, IQ4_NL>) {
    const __m128i d =
        _mm_set_epi16(half_bits(b + 7 * kB), half_bits(b + 6 * kB), half_bits(b + 5 * kB), half_bits(b + 4 * kB),
                      half_bits(b + 3 * kB), half_bits(b + 2 * kB), half_bits(b + kB), half_bits(b));
    return around(doubled(_mm256_cvtph_ps(d)), kIs<F, Q8_0> ? 128 : kIs<F, Q4_0> ? 8 : kIs<F, Q5_0> ? 16 : 127);
  } else if constexpr (kIs<F, Q4_1, Q5_1>) {
    const __m256i pairs =
        _mm256_set_epi32(four_bytes(b + 7 * kB), four_bytes(b + 6 * kB), four_bytes(b + 5 * kB), four_bytes(b + 4 * kB),
                         four_bytes(b + 3 * kB), four_bytes(b + 2 * kB), four_bytes(b + kB), four_bytes(b));
    const __m256i apart = _mm256_shuffle_epi8(
        pairs, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
    const Steps found = halves_doubled(_mm512_cvtph_ps(_mm256_permute4x64_epi64(apart, 0xd8)));
    return {found.scales, _mm512_sub_ps(_mm512_setzero_ps(), found.minimums)};
  } else if constexpr (kIs<F, MXFP4>) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(micro_exponents(b)));
    const __m256i e = _mm256_cvtepu8_epi32(bytes);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i power = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    return around(doubled(_mm256_castsi256_ps(power)), 12);
  } else if constexpr (kIs<F, Q4_K, Q5_K>) {
    // Scales in the lower lanes, minimums in the upper ones; see ScaleAndMinimum in k_quants.h. The first 16 bytes of a
    // block are d, dmin and the packed bytes, so that packed byte i is byte i + 4.
    static constexpr Places<false> kLow([](int i) { return i < 4 ? 4 + i : i < 8 ? 8 + i : i; });
    static constexpr Places<false> kHigh([](int i) { return i < 4 ? 0x80 : i < 8 ? i : i < 12 ? 0x80 : i - 4; });
    static constexpr Lanes kShift([](int i) { return i < 12 ? 0 : 4; });
    static constexpr Lanes kMask([](int i) { return i % 8 < 4 ? 63 : 15; });
    static constexpr Lanes kSteps([](int i) { return i / 8; });
    const __m512i bytes = sixteen_bytes(b);
    const __m512i low = _mm512_and_si512(_mm512_srlv_epi32(picked(bytes, kLow), in(kShift)), in(kMask));
    const __m512i six = with_bits(low, _mm512_srli_epi32(picked(bytes, kHigh), 2), 0x30);
    const __m512 both = _mm512_castps256_ps512(_mm256_cvtph_ps(_mm512_castsi512_si128(bytes)));
    return halves_doubled(_mm512_mul_ps(_mm512_cvtepi32_ps(six), _mm512_permutexvar_ps(in(kSteps), both)));
  } else if constexpr (kIs<F, Q6_K>) {
    const __m512i codes = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 192)));
    return around(_mm512_mul_ps(_mm512_cvtepi32_ps(codes), half_everywhere(b + 208)), 32);
  } else if constexpr (kIs<F, Q2_K>) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
    const __m512 scales = _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(0xf)));
    const __m512 minimums = _mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4));
    return {_mm512_mul_ps(scales, half_everywhere(b + 80)), _mm512_mul_ps(minimums, half_everywhere(b + 82))};
  } else if constexpr (kIs<F, Q3_K>) {
    // The last 16 bytes of a block: packed byte i is byte i + 2.
    static constexpr Places<false> kLow([](int i) { return 2 + i % 8; });
    static constexpr Places<true> kHigh([](int i) { return 10 + i % 4; });
    static constexpr Lanes kLowShift([](int i) { return i / 8 * 4; }), kHighShift([](int i) { return 4 + i / 4 * 2; });
    const __m512i bytes = sixteen_bytes(b + 94);
    const __m512i low = _mm512_and_si512(_mm512_srlv_epi32(picked(bytes, kLow), in(kLowShift)), _mm512_set1_epi32(0xf));
    const __m512i six = with_bits(low, _mm512_srlv_epi32(picked(bytes, kHigh), in(kHighShift)), 0x30);
    const __m512 scales = _mm512_cvtepi32_ps(_mm512_sub_epi32(six, _mm512_set1_epi32(32)));
    return around(_mm512_mul_ps(scales, half_everywhere(b + 108)), 4);
  } else if constexpr (kIs<F, IQ4_XS>) {
    static constexpr Places<false> kLow([](int i) { return 4 + i / 4; });
    static constexpr Lanes kLowShift([](int i) { return i / 2 % 2 * 4; }), kHighShift([](int i) { return i / 2 * 2; });
    const __m512i low =
        _mm512_and_si512(_mm512_srlv_epi32(picked(sixteen_bytes(b), kLow), in(kLowShift)), _mm512_set1_epi32(0xf));
    const __m512i high = _mm512_set1_epi32((four_bytes(b) >> 16 & 0xffff) << 4);
    const __m512i six = with_bits(low, _mm512_srlv_epi32(high, in(kHighShift)), 0x30);
    const __m512 scales = _mm512_cvtepi32_ps(_mm512_sub_epi32(six, _mm512_set1_epi32(32)));
    return around(_mm512_mul_ps(scales, half_everywhere(b)), 127);
  } else if constexpr (kIs<F, TQ1_0>) {
    const __m512 d = half_everywhere(b + 52);
    return {d, d};
  } else if constexpr (kIs<F, TQ2_0>) {
    const __m512 d = half_everywhere(b + 64);
    return {d, d};
  } else {
    static_assert(kIs<F, I2_S>);
    return {_mm512_set1_ps(1), _mm512_set1_ps(1)};
  }
}

}  // namespace etna::quantized::avx512

#endif
