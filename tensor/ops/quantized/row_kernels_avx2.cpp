#include <etna/tensor/ops/quantized/row_kernels_targets.h>

#if defined(__x86_64__)

// GCC 12 warns of what a lambda of a wider target returns, which never crosses a call: it is always inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <immintrin.h>

#include <string_view>
#include <type_traits>

#include <etna/tensor/ops/quantized/packed_formats.h>

#define ETNA_TARGET __attribute__((target("avx2,fma,f16c")))
#define ETNA_BF16_TARGET ETNA_TARGET
#define ETNA_LAMBDA __attribute__((target("avx2,fma,f16c"), always_inline))

namespace etna::quantized::avx2 {
namespace {

template <typename F, typename... G>
inline constexpr bool kIs = (std::is_same_v<F, G> || ...);

/// Formats of which codes_of() gives values with a sign: the instruction takes bytes up to 127 only.
template <typename F>
inline constexpr bool kSigned = kIs<F, Q8_0, IQ4_NL, IQ4_XS>;

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
  if constexpr (kIs<F, Q8_0>) {
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
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << C));
    return _mm256_or_si256(shifted<C % 2 * 4>(load32(b + 48 + 32 * (C / 2)), 0xf), where_bit(load32(b + 16), bit, 16));
  } else if constexpr (kIs<F, Q6_K>) {
    const __m256i low = shifted<kQuarter / 2 * 4>(load32(b + 64 * kHalf + 32 * (kQuarter % 2)), 0xf);
    const __m256i high = shifted<2 * kQuarter>(load32(b + 128 + 32 * kHalf), 3);
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
  } else if constexpr (kIs<F, Q2_K>) {
    return shifted<2 * kQuarter>(load32(b + 16 + 32 * kHalf), 3);
  } else if constexpr (kIs<F, TQ2_0>) {
    return shifted<2 * kQuarter>(load32(b + 32 * kHalf), 3);
  } else if constexpr (kIs<F, I2_S>) {
    return shifted<6 - 2 * kQuarter>(load32(b + 32 * kHalf), 3);
  } else if constexpr (kIs<F, Q3_K>) {
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << C));
    return _mm256_or_si256(shifted<2 * kQuarter>(load32(b + 32 + 32 * kHalf), 3), where_bit(load32(b), bit, 4));
  } else if constexpr (kIs<F, I2_S_32>) {
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(own)));
    const __m256i low = _mm256_or_si256(x, _mm256_slli_epi32(x, 6));
    return _mm256_and_si256(_mm256_or_si256(low, _mm256_slli_epi32(low, 12)), _mm256_set1_epi8(3));
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

/// Values of 16 sub-blocks are scales · code - minimums.
struct Steps {
  __m256 scales[2], minimums[2];
};

ETNA_TARGET ETNA_INLINE void twice(__m256 eight, __m256 (&to)[2]) {
  to[0] = _mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  to[1] = _mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7));
}
ETNA_TARGET ETNA_INLINE __m256 half_everywhere(const std::byte* from) {
  return _mm256_cvtph_ps(_mm_set1_epi16(bits_at<short>(from)));
}
/// Minimums of a format whose code for 0 is `zero`; of one with signs, 0.
ETNA_TARGET ETNA_INLINE Steps around(Steps steps, float zero) {
  for (int i = 0; i < 2; ++i) steps.minimums[i] = _mm256_mul_ps(steps.scales[i], _mm256_set1_ps(zero));
  return steps;
}
ETNA_TARGET ETNA_INLINE Steps around_doubled(__m256 eight, float zero) {
  Steps steps;
  twice(eight, steps.scales);
  return around(steps, zero);
}
ETNA_TARGET ETNA_INLINE void widened_bytes(__m128i bytes, __m256 unit, __m256 (&to)[2]) {
  to[0] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), unit);
  to[1] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))), unit);
}

/// Scales in registers: what F::scales() stores is reloaded in other widths, which waits for the stores.
template <typename F>
ETNA_TARGET ETNA_INLINE Steps steps_of(const std::byte* b) {
  constexpr int kB = F::kBytes;
  Steps steps;
  if constexpr (kIs<F, Q8_0, Q4_0, Q5_0, IQ4_NL, I2_S_32>) {
    const std::byte* at = b + (kIs<F, I2_S_32> ? 8 : 0);
    const __m128i d =
        _mm_set_epi16(bits_at<short>(at + 7 * kB), bits_at<short>(at + 6 * kB), bits_at<short>(at + 5 * kB),
                      bits_at<short>(at + 4 * kB), bits_at<short>(at + 3 * kB), bits_at<short>(at + 2 * kB),
                      bits_at<short>(at + kB), bits_at<short>(at));
    return around_doubled(_mm256_cvtph_ps(d), kIs<F, Q4_0> ? 8 : kIs<F, Q5_0> ? 16 : kIs<F, I2_S_32> ? 1 : 0);
  } else if constexpr (kIs<F, Q4_1, Q5_1>) {
    const __m256i pairs = _mm256_set_epi32(bits_at<int>(b + 7 * kB), bits_at<int>(b + 6 * kB), bits_at<int>(b + 5 * kB),
                                           bits_at<int>(b + 4 * kB), bits_at<int>(b + 3 * kB), bits_at<int>(b + 2 * kB),
                                           bits_at<int>(b + kB), bits_at<int>(b));
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i apart = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(pairs, order), 0xd8);
    const __m256 minus = _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1));
    twice(_mm256_cvtph_ps(_mm256_castsi256_si128(apart)), steps.scales);
    twice(_mm256_sub_ps(_mm256_setzero_ps(), minus), steps.minimums);
    return steps;
  } else if constexpr (kIs<F, MXFP4>) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(micro_exponents(b))));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i power = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    return around_doubled(_mm256_castsi256_ps(power), 12);
  } else if constexpr (kIs<F, Q4_K, Q5_K>) {
    const std::uint32_t x = bits_at<std::uint32_t>(b + 4), y = bits_at<std::uint32_t>(b + 8),
                        z = bits_at<std::uint32_t>(b + 12);
    const std::uint32_t high = (z & 0x0f0f0f0fu) | (x >> 2 & 0x30303030u),
                        high_minimum = (z >> 4 & 0x0f0f0f0fu) | (y >> 2 & 0x30303030u);
    const auto eight = [](std::uint32_t first, std::uint32_t second) ETNA_LAMBDA {
      const auto bytes = static_cast<std::uint64_t>(second) << 32 | first;
      return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes))));
    };
    twice(_mm256_mul_ps(eight(x & 0x3f3f3f3fu, high), half_everywhere(b)), steps.scales);
    twice(_mm256_mul_ps(eight(y & 0x3f3f3f3fu, high_minimum), half_everywhere(b + 2)), steps.minimums);
    return steps;
  } else if constexpr (kIs<F, Q6_K>) {
    widened_bytes(load16(b + 192), half_everywhere(b + 208), steps.scales);
    return around(steps, 32);
  } else if constexpr (kIs<F, Q2_K>) {
    const __m128i bytes = load16(b), mask = _mm_set1_epi8(0xf);
    widened_bytes(_mm_and_si128(bytes, mask), half_everywhere(b + 80), steps.scales);
    widened_bytes(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask), half_everywhere(b + 82), steps.minimums);
    return steps;
  } else if constexpr (kIs<F, Q3_K>) {
    const std::uint32_t x = bits_at<std::uint32_t>(b + 96), y = bits_at<std::uint32_t>(b + 100),
                        z = bits_at<std::uint32_t>(b + 104);
    const auto four = [](std::uint32_t low, std::uint32_t high)
                          ETNA_LAMBDA { return static_cast<int>((low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4); };
    const __m128i six = _mm_setr_epi32(four(x, z), four(y, z >> 2), four(x >> 4, z >> 4), four(y >> 4, z >> 6));
    widened_bytes(_mm_sub_epi8(six, _mm_set1_epi8(32)), half_everywhere(b + 108), steps.scales);
    return around(steps, 4);
  } else if constexpr (kIs<F, IQ4_XS>) {
    const __m256i low =
        _mm256_srlv_epi32(_mm256_set1_epi32(bits_at<int>(b + 4)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(bits_at<std::uint16_t>(b + 2) << 4),
                                           _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i six =
        _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xf)), _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
    const __m256 scales = _mm256_cvtepi32_ps(_mm256_sub_epi32(six, _mm256_set1_epi32(32)));
    return around_doubled(_mm256_mul_ps(scales, half_everywhere(b)), 0);
  } else {
    static_assert(kIs<F, TQ1_0, TQ2_0, I2_S>);
    if constexpr (kIs<F, I2_S>)
      steps.scales[0] = steps.scales[1] = _mm256_set1_ps(1);
    else
      steps.scales[0] = steps.scales[1] = half_everywhere(b + (kIs<F, TQ1_0> ? 52 : 64));
    return around(steps, 1);
  }
}

struct Vector {
  /// Two chains of additions, since one would wait for itself.
  struct Sum {
    __m256 even, odd;
  };
  static ETNA_TARGET ETNA_INLINE Sum zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static ETNA_TARGET ETNA_INLINE float total(__m256 sum) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
  static ETNA_TARGET ETNA_INLINE float total(const Sum& sum) { return total(_mm256_add_ps(sum.even, sum.odd)); }

  /// Adds the products of 32 codes: four lanes for each scale.
  template <typename F, int C, int M>
  static ETNA_TARGET ETNA_INLINE void add(const std::byte* b, const RoundedGroup* x, const __m256 (&scales)[M][2],
                                          Sum (&sums)[M]) {
    const __m256i codes = codes_of<F, C>(b);
    constexpr int kS = C % 4 * 2;
    const __m256i lanes = _mm256_setr_epi32(kS, kS, kS, kS, kS + 1, kS + 1, kS + 1, kS + 1);
    for (int m = 0; m < M; ++m) {
      const __m256i own = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[m].codes + 32 * C));
      const __m256i pairs = kSigned<F> ? _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(own, codes))
                                       : _mm256_maddubs_epi16(codes, own);
      const __m256 product = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      __m256& sum = C % 2 == 0 ? sums[m].even : sums[m].odd;
      sum = _mm256_fmadd_ps(product, _mm256_permutevar8x32_ps(scales[m][C / 4], lanes), sum);
    }
  }

  template <typename F, int M>
  static ETNA_TARGET ETNA_INLINE void group(const std::byte* b, const RoundedGroup* x, Sum (&sums)[M]) {
    const Steps steps = steps_of<F>(b);
    __m256 scales[M][2];
    for (int m = 0; m < M; ++m) {
      for (int i = 0; i < 2; ++i) {
        scales[m][i] = _mm256_mul_ps(steps.scales[i], _mm256_load_ps(x[m].scales + 8 * i));
        if (!kSigned<F>)
          sums[m].odd = _mm256_fnmadd_ps(steps.minimums[i], _mm256_load_ps(x[m].sums + 8 * i), sums[m].odd);
      }
    }
    add<F, 0, M>(b, x, scales, sums);
    add<F, 1, M>(b, x, scales, sums);
    add<F, 2, M>(b, x, scales, sums);
    add<F, 3, M>(b, x, scales, sums);
    add<F, 4, M>(b, x, scales, sums);
    add<F, 5, M>(b, x, scales, sums);
    add<F, 6, M>(b, x, scales, sums);
    add<F, 7, M>(b, x, scales, sums);
  }

  template <typename F, int C>
  static ETNA_TARGET ETNA_INLINE void widen_some(const std::byte* b, const float* scales, const float* minimums,
                                                 float* out) {
    alignas(32) std::byte codes[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(codes), codes_of<F, C>(b));
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * i));
      const __m256i wide = kSigned<F> ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
      const int sub = 2 * C + i / 2;
      _mm256_storeu_ps(out + 32 * C + 8 * i, _mm256_fmsub_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(scales[sub]),
                                                             _mm256_set1_ps(minimums[sub])));
    }
  }
  template <typename F>
  static ETNA_TARGET ETNA_INLINE void widen(const std::byte* b, float* out) {
    alignas(32) float scales[kSubs], minimums[kSubs];
    const Steps steps = steps_of<F>(b);
    for (int i = 0; i < 2; ++i) {
      _mm256_store_ps(scales + 8 * i, steps.scales[i]);
      _mm256_store_ps(minimums + 8 * i, steps.minimums[i]);
    }
    widen_some<F, 0>(b, scales, minimums, out);
    widen_some<F, 1>(b, scales, minimums, out);
    widen_some<F, 2>(b, scales, minimums, out);
    widen_some<F, 3>(b, scales, minimums, out);
    widen_some<F, 4>(b, scales, minimums, out);
    widen_some<F, 5>(b, scales, minimums, out);
    widen_some<F, 6>(b, scales, minimums, out);
    widen_some<F, 7>(b, scales, minimums, out);
  }
  static ETNA_TARGET ETNA_INLINE void narrow(const float* x, std::uint16_t* y) { narrow_by_loops(x, y); }

  using Floats = __m256;
  static constexpr int kFloats = 8;
  static ETNA_TARGET ETNA_INLINE Floats none() { return _mm256_setzero_ps(); }
  static ETNA_TARGET ETNA_INLINE Floats load(const float* x) { return _mm256_loadu_ps(x); }
  static ETNA_TARGET ETNA_INLINE Floats load(const F16* x) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  }
  static ETNA_TARGET ETNA_INLINE Floats load(const BF16* x) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  }
  static ETNA_TARGET ETNA_INLINE void store(Floats x, float* to) { _mm256_storeu_ps(to, x); }
  static ETNA_TARGET ETNA_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static ETNA_TARGET ETNA_INLINE float total(Floats a, Floats b, Floats c, Floats d) {
    return total(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
  }
};

#include <etna/tensor/ops/quantized/row_kernels.inc>

}  // namespace

RowKernels kernels(std::string_view format) { return find(format); }

}  // namespace etna::quantized::avx2

#endif
