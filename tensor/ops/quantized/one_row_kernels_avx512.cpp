#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX512

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx512.h>
#include <etna/tensor/ops/quantized/internal/read_rows.h>

// One row of x, for the formats that language models are decoded in most. Memory should bound it, but where operations
// of 512 bits take two cycles (Zen 4), instructions do. So:
//  - x lies in the order in which codes come out of a block. 64 packed bytes are loaded at once, and codes are masked
//    where they are: the power of 4 or 16 that this leaves on them is in x's scale.
//  - Lanes are exchanged so that the codes of a block of 32 fill two lanes (ternary) or four (Q4_K). Integers are then
//    summed over four or two products before they become floats, which takes three instructions.
//  - Minimums times sums of x are added with the scales, or as one number for a group.
// Instructions for a group of 256, before (row_kernels_avx512.cpp) and after: TQ2_0 41 and 20, Q4_K 52 and 39, Q5_K 65
// and 55, Q6_K 57 and 53. ns from the caches on Zen 4: 5.4 and 2.6, 7.8 and 5.0, 9.3 and 6.7, 8.0 and 6.5.
//
// Bytes are read in ascending order, or the processor does not see what comes next. Lost for that reason: four or eight
// rows side by side, which share loads of x (as fast from the caches, down to half as fast from memory); scales of four
// blocks of Q4_K or Q6_K unpacked together (up to 10 % faster from the caches, 5 to 25 % slower from memory).
namespace etna::quantized::avx512 {
namespace {

ETNA_TARGET ETNA_INLINE __m512i load(const void* from) { return _mm512_load_si512(from); }
/// 64 bytes of a weight, in the order of calls. Opaque, or the compiler reads them once for each use, most often from
/// two lines of the cache.
ETNA_TARGET ETNA_INLINE __m512i load_once(const std::byte* from) {
  __m512i x = _mm512_loadu_si512(from);
  __asm__ volatile("" : "+v"(x));
  return x;
}
ETNA_TARGET ETNA_INLINE __m128i load16(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
ETNA_TARGET ETNA_INLINE __m512i masked(__m512i x, int mask) {
  return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(mask)));
}
/// Four f16 numbers.
ETNA_TARGET ETNA_INLINE __m128 four_halves(const std::byte* const (&at)[4]) {
  std::uint64_t all = 0;
  for (int i = 3; i >= 0; --i) all = all << 16 | static_cast<std::uint16_t>(half_bits(at[i]));
  return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(all)));
}

/// TQ2_0 and I2_S: 64 bytes of a group hold block p + 4 h of 32 elements at bits 2 p of half h. Four groups at once.
template <typename F>
struct Ternary {
  static constexpr int kTogether = 4;
  static constexpr std::int64_t kBytes = kGroup / F::kElements * F::kBytes;

  /// By place, and codes by quarter of a block. lane() is the first of two lanes for half a group.
  struct X {
    alignas(64) std::int8_t codes[4][4][64];
    float scales[4][16];
    float subtracted[16];
  };
  static constexpr int lane(int group, int half) { return group / 2 * 8 + half * 4 + group % 2 * 2; }

  static ETNA_TARGET void arrange(const RoundedGroup& from, int group, X& to) {
    for (int half = 0; half < 2; ++half) {
      const int first = lane(group, half);
      to.subtracted[first] = to.subtracted[first + 1] = 0;
      for (int place = 0; place < 4; ++place) {
        const int block = 4 * half + (kIs<F, I2_S> ? 3 - place : place);
        const float scale = from.block_scales[block];
        to.scales[place][first] = to.scales[place][first + 1] = scale / static_cast<float>(1 << (2 * place));
        to.subtracted[first] -= from.block_sums[block];
        for (int quarter = 0; quarter < 4; ++quarter)
          std::memcpy(to.codes[place][quarter] + 4 * first, from.codes + 32 * block + 8 * quarter, 8);
      }
    }
  }

  template <int Place>
  static ETNA_TARGET ETNA_INLINE __m512 add(const __m512i (&quarters)[4], const X& x, __m512 sum) {
    __m512i product = _mm512_setzero_si512();
    for (int i = 0; i < 4; ++i)
      product = _mm512_dpbusd_epi32(product, masked(quarters[i], 3 << (2 * Place)), load(x.codes[Place][i]));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_load_ps(x.scales[Place]), sum);
  }
  static ETNA_TARGET ETNA_INLINE __m512 groups(const std::byte* const (&b)[4], const X& x, __m512 sum) {
    const __m512i first = load_once(b[0]), second = load_once(b[1]), third = load_once(b[2]), last = load_once(b[3]);
    const __m512i low = _mm512_unpacklo_epi64(first, second), high = _mm512_unpackhi_epi64(first, second);
    const __m512i low2 = _mm512_unpacklo_epi64(third, last), high2 = _mm512_unpackhi_epi64(third, last);
    const __m512i quarters[4] = {_mm512_shuffle_i32x4(low, low2, 0x88), _mm512_shuffle_i32x4(high, high2, 0x88),
                                 _mm512_shuffle_i32x4(low, low2, 0xdd), _mm512_shuffle_i32x4(high, high2, 0xdd)};
    __m512 own = _mm512_load_ps(x.subtracted);
    if constexpr (kIs<F, I2_S>) own = _mm512_add_ps(sum, own);
    own = add<0>(quarters, x, own);
    own = add<1>(quarters, x, own);
    own = add<2>(quarters, x, own);
    own = add<3>(quarters, x, own);
    if constexpr (kIs<F, I2_S>) return own;
    static constexpr Lanes kUnit([](int i) { return i / 8 * 2 + i % 4 / 2; });
    const __m512 four = _mm512_castps128_ps512(four_halves({b[0] + 64, b[1] + 64, b[2] + 64, b[3] + 64}));
    return _mm512_fmadd_ps(own, _mm512_permutexvar_ps(in(kUnit), four), sum);
  }

  static ETNA_TARGET ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m512 sum = _mm512_setzero_ps();
    std::int64_t left = columns;
    for (; left >= 4 * kGroup; left -= 4 * kGroup, b += 4 * kBytes, ++x) {
      look_ahead(b, 4 * kBytes);
      sum = groups({b, b + kBytes, b + 2 * kBytes, b + 3 * kBytes}, *x, sum);
    }
    if (left > 0) {
      look_ahead(b, left / kGroup * kBytes);
      sum = groups(RestOfRow<F, 4>(b, left).at, *x, sum);
    }
    _mm512_store_ps(sums, sum);
  }
};

/// Q4_K and Q5_K: 128 bytes of codes hold block 2 j of 32 elements in the low halves of 32 bytes, block 2 j + 1 in the
/// high ones.
template <typename F>
struct Affine {
  static constexpr int kTogether = 1;
  static constexpr std::int64_t kBytes = F::kBytes;
  static constexpr int kCodes = kIs<F, Q5_K> ? 48 : 16;

  struct X {
    alignas(64) std::int8_t codes[2][2][64];  ///< of even and odd blocks: 16 bytes of each, then the other 16
    float factors[16];                        ///< for each block what scale and minimum are multiplied by
  };
  static ETNA_TARGET void arrange(const RoundedGroup& from, int, X& to) {
    for (int block = 0; block < 8; ++block) {
      const bool high = kIs<F, Q4_K> && block % 2 == 1;
      to.factors[2 * block] = from.block_scales[block] * (high ? 0.0625f : 1.0f);
      to.factors[2 * block + 1] = -from.block_sums[block];
      for (int half = 0; half < 2; ++half)
        std::memcpy(to.codes[block % 2][half] + block / 2 * 16, from.codes + 32 * block + 16 * half, 16);
    }
  }

  /// Scales and minimums of six bits, block by block; see ScaleAndMinimum in k_quants.h. The first 16 bytes of a block
  /// are d, dmin and the packed bytes.
  static ETNA_TARGET ETNA_INLINE __m128i steps(__m128i head) {
    const __m128i low = _mm_shuffle_epi8(head, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i high =
        _mm_shuffle_epi8(head, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i four = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)),
                                       _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const __m128i six = _mm_ternarylogic_epi32(four, _mm_srli_epi16(high, 2), _mm_set1_epi8(0x30), 0xf8);
    return _mm_shuffle_epi8(six, _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  }

  /// 64 codes of even or odd blocks from packed bytes. @param fifth bits of Q5_K, `bit` that of a lane's block
  template <bool Odd>
  static ETNA_TARGET ETNA_INLINE __m512i codes(__m512i packed, __m512i fifth, __m512i bit) {
    if constexpr (kIs<F, Q4_K>) return masked(packed, Odd ? 0xf0 : 0x0f);
    const __m512i four = masked(Odd ? _mm512_srli_epi16(packed, 4) : packed, 0x0f);
    return _mm512_mask_add_epi8(four, _mm512_test_epi8_mask(fifth, bit), four, _mm512_set1_epi8(16));
  }
  template <bool Odd>
  static ETNA_TARGET ETNA_INLINE __m512 add(const __m512i (&packed)[2], const __m512i (&fifth)[2], const X& x,
                                            __m512 factors, __m512 sum) {
    static constexpr Lanes kBit([](int i) { return (Odd ? 0x02020202u : 0x01010101u) << (i / 4 * 2); });
    static constexpr Lanes kScale([](int i) { return i / 4 * 4 + (Odd ? 2 : 0); });
    __m512i product = _mm512_setzero_si512();
    for (int half = 0; half < 2; ++half)
      product = _mm512_dpbusd_epi32(product, codes<Odd>(packed[half], fifth[half], in(kBit)), load(x.codes[Odd][half]));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), factors), sum);
  }
  static ETNA_TARGET ETNA_INLINE __m512 group(const std::byte* b, const X& x, __m512 sum) {
    const __m128i head = load16(b);
    const __m512i low = load_once(b + kCodes), high = load_once(b + kCodes + 64);
    const __m512 own = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(steps(head))), _mm512_load_ps(x.factors));
    const __m512 units = _mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_castps_pd(_mm_cvtph_ps(head))));
    const __m512 factors = _mm512_mul_ps(own, units);
    const __m512i packed[2] = {_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd)};
    __m512i fifth[2] = {};
    if constexpr (kIs<F, Q5_K>) {
      fifth[0] = sixteen_bytes(b + 16);
      fifth[1] = sixteen_bytes(b + 32);
    }
    sum = _mm512_mask_add_ps(sum, 0xaaaa, sum, factors);
    sum = add<false>(packed, fifth, x, factors, sum);
    return add<true>(packed, fifth, x, factors, sum);
  }

  static ETNA_TARGET ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    std::int64_t left = columns / kGroup;
    for (; left >= 2; left -= 2, b += 2 * kBytes, x += 2) {
      even = group(b, x[0], even);
      odd = group(b + kBytes, x[1], odd);
    }
    if (left > 0) even = group(b, *x, even);
    _mm512_store_ps(sums, _mm512_add_ps(even, odd));
  }
};

/// Q6_K: each half of a group has 64 bytes of low bits and 32 bytes of high ones.
struct Six {
  static constexpr int kTogether = 1;
  static constexpr std::int64_t kBytes = Q6_K::kBytes;

  struct X {
    alignas(64) std::int8_t codes[4][64];
    float scales[16];
    float subtracted[16];  ///< what scales are multiplied by, since a code is 32 more than its value
  };
  static ETNA_TARGET void arrange(const RoundedGroup& from, int, X& to) {
    std::memcpy(to.codes, from.codes, sizeof to.codes);
    std::memcpy(to.scales, from.scales, sizeof to.scales);
    for (int i = 0; i < 16; ++i) to.subtracted[i] = static_cast<float>(-32 * from.code_sums[i]);
  }

  /// A number for the lower half and one for the upper, in lanes of 16 bits.
  static ETNA_TARGET ETNA_INLINE __m512i halves(int lower, int upper) {
    return _mm512_inserti64x4(_mm512_set1_epi16(static_cast<short>(lower)),
                              _mm256_set1_epi16(static_cast<short>(upper)), 1);
  }
  template <int C>
  static ETNA_TARGET ETNA_INLINE void add(__m512i low, __m512i high, const X& x, __m512 scales, __m512& sum) {
    static constexpr Lanes kScale([](int i) { return 4 * C + i / 4; });
    const __m512i codes = _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x0f), low, high, 0xca);
    const __m512i product = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, load(x.codes[C]));
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), scales), sum);
  }
  template <int H>
  static ETNA_TARGET ETNA_INLINE void half(__m512i low, __m512i both, const X& x, __m512 scales, __m512& even,
                                           __m512& odd) {
    // With one pair of bits of each nibble, shifts bring nothing to the highest two bits of a code.
    const __m512i high = _mm512_and_si512(both, halves(0x3333, 0xcccc));
    add<2 * H>(low, _mm512_sllv_epi16(high, halves(4, 2)), x, scales, even);
    add<2 * H + 1>(_mm512_srli_epi16(low, 4), _mm512_srlv_epi16(high, halves(0, 2)), x, scales, odd);
  }

  static ETNA_TARGET ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (std::int64_t left = columns; left > 0; left -= kGroup, b += kBytes, ++x) {
      const __m512i low = load_once(b), low2 = load_once(b + 64);
      const __m512i high = both_halves(b + 128), high2 = both_halves(b + 160);
      const __m512 steps = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(b + 192)));
      const __m128 unit = _mm_cvtph_ps(_mm_cvtsi32_si128(half_bits(b + 208)));
      const __m512 own = _mm512_mul_ps(steps, _mm512_load_ps(x->scales));
      const __m512 scales = _mm512_mul_ps(own, _mm512_broadcastss_ps(unit));
      odd = _mm512_fmadd_ps(scales, _mm512_load_ps(x->subtracted), odd);
      half<0>(low, high, *x, scales, even, odd);
      half<1>(low2, high2, *x, scales, even, odd);
    }
    _mm512_store_ps(sums, _mm512_add_ps(even, odd));
  }
};

constexpr int kLanes = 16;
ETNA_TARGET ETNA_INLINE void totals(const float (&sums)[4][kLanes], float* out) {
  const __m512 a = _mm512_load_ps(sums[0]), b = _mm512_load_ps(sums[1]);
  const __m512 c = _mm512_load_ps(sums[2]), d = _mm512_load_ps(sums[3]);
  const __m512 first = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 second = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(first, second, 0x44), _mm512_shuffle_ps(first, second, 0xee));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

#include <etna/tensor/ops/quantized/internal/one_row_kernels.inc>

}  // namespace

OneRowKernels one_row_kernels(std::string_view format) {
  if (format == "TQ2_0") return kernels_of<Ternary<TQ2_0>>();
  if (format == "I2_S") return kernels_of<Ternary<I2_S>>();
  if (format == "Q4_K") return kernels_of<Affine<Q4_K>>();
  if (format == "Q5_K") return kernels_of<Affine<Q5_K>>();
  if (format == "Q6_K") return kernels_of<Six>();
  return {};
}

}  // namespace etna::quantized::avx512

#endif
