#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>

#ifdef ETNA_KERNELS_AVX512

// GCC 12 warns of the intrinsics' own undefined operands.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstring>
#include <type_traits>

#define ETNA_BF16_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")))
ETNA_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#include <etna/tensor/quant/internal/formats.h>
#include <etna/tensor/quant/internal/vector_avx512.h>
#include <etna/tensor/quant/internal/vector_portable.h>

namespace etna::quantized::avx512 {
namespace {

using namespace quant;

struct Vector {
  /// Two independent accumulators, to hide the latency of additions.
  struct Sum {
    __m512 even, odd;
  };
  static ETNA_INLINE Sum zero() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }
  static ETNA_INLINE float total(const Sum& sum) { return _mm512_reduce_add_ps(_mm512_add_ps(sum.even, sum.odd)); }

  /// Adds the products of 64 quants; each scale applies to four lanes.
  template <int C>
  static ETNA_INLINE void add(__m512i quants, const std::int8_t* own, __m512 scales, __m512& sum) {
    static constexpr Lanes kScale([](int i) { return 4 * C + i / 4; });
    const __m512i product = _mm512_dpbusd_epi32(_mm512_setzero_si512(), quants, _mm512_load_si512(own + 64 * C));
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), scales), sum);
  }

  template <typename F, int M>
  static ETNA_INLINE void group(const std::byte* b, const QuantizedGroup* x, Sum (&sums)[M]) {
    const Avx512::Scales own_scales = Avx512::scales<F>(b);
    __m512i quants[4];
    unrolled<4>([&](auto c) ETNA_INLINE_LAMBDA { quants[c] = quants_of<Avx512, F, c()>(b); });
    for (int m = 0; m < M; ++m) {
      const std::int8_t* own = x[m].quants;
      const __m512 scales = _mm512_mul_ps(own_scales.scales, _mm512_load_ps(x[m].scales));
      sums[m].odd = _mm512_fnmadd_ps(own_scales.minimums, _mm512_load_ps(x[m].sums), sums[m].odd);
      add<0>(quants[0], own, scales, sums[m].even);
      add<1>(quants[1], own, scales, sums[m].odd);
      add<2>(quants[2], own, scales, sums[m].even);
      add<3>(quants[3], own, scales, sums[m].odd);
    }
  }

  /// Sixteen values of a group, from lane 16 q of the quants on.
  template <int Q>
  static ETNA_INLINE __m512 values(__m512i quants, const float* scales, const float* minimums) {
    const __m512i sixteen = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(quants, Q));
    return _mm512_fmsub_ps(_mm512_cvtepi32_ps(sixteen), _mm512_set1_ps(scales[Q]), _mm512_set1_ps(minimums[Q]));
  }
  template <typename F>
  static ETNA_INLINE void dequantize(const std::byte* b, float* out) {
    alignas(64) float scales[kSubs], minimums[kSubs];
    const Avx512::Scales own_scales = Avx512::scales<F>(b);
    _mm512_store_ps(scales, own_scales.scales);
    _mm512_store_ps(minimums, own_scales.minimums);
    __m512i quants[4];
    unrolled<4>([&](auto c) ETNA_INLINE_LAMBDA { quants[c] = quants_of<Avx512, F, c()>(b); });
    for (int c = 0; c < 4; ++c) {
      _mm512_storeu_ps(out + 64 * c, values<0>(quants[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 16, values<1>(quants[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 32, values<2>(quants[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 48, values<3>(quants[c], scales + 4 * c, minimums + 4 * c));
    }
  }
  /// Rounds 32 values to nearest even.
  static ETNA_BF16_TARGET ETNA_INLINE void round_bf16(const float* x, std::uint16_t* y) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
    _mm512_storeu_si512(y, (__m512i)both);
  }

  using Floats = __m512;
  static constexpr int kFloats = 16;
  static ETNA_INLINE Floats none() { return _mm512_setzero_ps(); }
  static ETNA_INLINE Floats load(const float* x) { return _mm512_loadu_ps(x); }
  static ETNA_INLINE Floats load(const F16* x) { return _mm512_cvtph_ps(load32(x)); }
  static ETNA_INLINE Floats load(const BF16* x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(x)), 16));
  }
  static ETNA_INLINE void store(Floats x, float* to) { _mm512_storeu_ps(to, x); }
  static ETNA_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static ETNA_INLINE float total(Floats a, Floats b, Floats c, Floats d) {
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
  }
};

#include <etna/tensor/ops/quantized/internal/cpu_kernels.inc>

// GEMV for the formats most used to decode with language models. It should be bound by memory, but is bound by
// instructions where 512-bit operations take two cycles (Zen 4). So:
//  - x is stored in the order in which quants come out of a block. 64 packed bytes are loaded at once, and quants are
//    masked without shifting them: x's scale makes up for the factor of 4 or 16 that this leaves on them.
//  - Lanes are permuted so that the quants of a run fill two lanes (ternary) or four (Q4_K). Integers are then summed
//    over four or two products before they are converted to floats, which takes three instructions.
//  - Minimums times sums of x are added together with the scales, or as one number for a group.
// Instructions for a group of 256 with Vector and with these kernels: TQ2_0 41 and 20, Q4_K 52 and 39, Q5_K 65 and 55,
// Q6_K 57 and 53. ns from the caches on Zen 4: 5.4 and 2.6, 7.8 and 5.0, 9.3 and 6.7, 8.0 and 6.5.
//
// Bytes are read in ascending order, so that the processor prefetches them. Lost for that reason: four or eight rows at
// once, which share loads of x (as fast from the caches, down to half as fast from memory); unpacking the scales of
// four blocks of Q4_K or Q6_K together (up to 10 % faster from the caches, 5 to 25 % slower from memory).

ETNA_INLINE __m512i load(const void* from) { return _mm512_load_si512(from); }
/// Loads 64 bytes of a weight, in the order of calls. Opaque to the compiler, which would otherwise load them again for
/// each use, mostly from two cache lines.
ETNA_INLINE __m512i load_once(const std::byte* from) {
  __m512i x = _mm512_loadu_si512(from);
  __asm__ volatile("" : "+v"(x));
  return x;
}
/// Four f16 numbers.
ETNA_INLINE __m128 four_f16s(const std::byte* const (&at)[4]) {
  std::uint64_t all = 0;
  for (int i = 3; i >= 0; --i) all = all << 16 | static_cast<std::uint16_t>(bits_at<short>(at[i]));
  return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(all)));
}

/// The common part of the GEMV kernels.
struct Gemv {
  static constexpr int kLanes = 16;
  static ETNA_INLINE void totals(const float (&sums)[4][kLanes], float* out) {
    const __m512 a = _mm512_load_ps(sums[0]), b = _mm512_load_ps(sums[1]);
    const __m512 c = _mm512_load_ps(sums[2]), d = _mm512_load_ps(sums[3]);
    const __m512 first = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 second = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(first, second, 0x44), _mm512_shuffle_ps(first, second, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
};

/// TQ2_0 and I2_S: half h of a group's 64 bytes holds one of runs 4 h ... 4 h + 3 at bits 2 · place. Four groups at
/// once.
template <typename F>
struct Ternary : Gemv {
  static constexpr int kTogether = 4;
  static constexpr std::int64_t kBytes = kGroupBytes<F>;
  static constexpr int kScaleAt = F::kF16.first;

  /// Indexed by place; quants also by quarter of a run. lane() is the first of the two lanes of half a group.
  struct X {
    alignas(64) std::int8_t quants[4][4][64];
    float scales[4][16];
    float subtracted[16];
  };
  static constexpr int lane(int group, int half) { return group / 2 * 8 + half * 4 + group % 2 * 2; }

  static void pack(const QuantizedGroup& from, int group, X& to) {
    for (int half = 0; half < 2; ++half) {
      const int first = lane(group, half);
      to.subtracted[first] = to.subtracted[first + 1] = 0;
      for (int place = 0; place < 4; ++place) {
        const int run = 4 * half + kRunAt<F>[place];
        const float scale = from.run_scales[run];
        to.scales[place][first] = to.scales[place][first + 1] = scale / static_cast<float>(1 << (2 * place));
        to.subtracted[first] -= from.run_sums[run];
        for (int quarter = 0; quarter < 4; ++quarter)
          std::memcpy(to.quants[place][quarter] + 4 * first, from.quants + 32 * run + 8 * quarter, 8);
      }
    }
  }

  template <int Place>
  static ETNA_INLINE __m512 add(const __m512i (&quarters)[4], const X& x, __m512 sum) {
    __m512i product = _mm512_setzero_si512();
    for (int i = 0; i < 4; ++i)
      product = _mm512_dpbusd_epi32(product, masked(quarters[i], 3 << (2 * Place)), load(x.quants[Place][i]));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_load_ps(x.scales[Place]), sum);
  }
  static ETNA_INLINE __m512 groups(const std::byte* const (&b)[4], const X& x, __m512 sum) {
    const __m512i first = load_once(b[0]), second = load_once(b[1]), third = load_once(b[2]), last = load_once(b[3]);
    const __m512i low = _mm512_unpacklo_epi64(first, second), high = _mm512_unpackhi_epi64(first, second);
    const __m512i low2 = _mm512_unpacklo_epi64(third, last), high2 = _mm512_unpackhi_epi64(third, last);
    const __m512i quarters[4] = {_mm512_shuffle_i32x4(low, low2, 0x88), _mm512_shuffle_i32x4(high, high2, 0x88),
                                 _mm512_shuffle_i32x4(low, low2, 0xdd), _mm512_shuffle_i32x4(high, high2, 0xdd)};
    __m512 own = _mm512_load_ps(x.subtracted);
    if constexpr (F::kF16.first < 0) own = _mm512_add_ps(sum, own);
    own = add<0>(quarters, x, own);
    own = add<1>(quarters, x, own);
    own = add<2>(quarters, x, own);
    own = add<3>(quarters, x, own);
    if constexpr (F::kF16.first < 0) return own;
    static constexpr Lanes kUnit([](int i) { return i / 8 * 2 + i % 4 / 2; });
    const __m512 four =
        _mm512_castps128_ps512(four_f16s({b[0] + kScaleAt, b[1] + kScaleAt, b[2] + kScaleAt, b[3] + kScaleAt}));
    return _mm512_fmadd_ps(own, _mm512_permutexvar_ps(in(kUnit), four), sum);
  }

  static ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m512 sum = _mm512_setzero_ps();
    std::int64_t left = columns;
    for (; left >= 4 * kGroup; left -= 4 * kGroup, b += 4 * kBytes, ++x) {
      prefetch(b, 4 * kBytes);
      sum = groups({b, b + kBytes, b + 2 * kBytes, b + 3 * kBytes}, *x, sum);
    }
    if (left > 0) {
      prefetch(b, left / kGroup * kBytes);
      sum = groups(RestOfRow<F, 4>(b, left).at, *x, sum);
    }
    _mm512_store_ps(sums, sum);
  }
};

/// Q4_K and Q5_K: 128 bytes of quants hold run 2 j in the low nibbles of 32 bytes and run 2 j + 1 in the high ones.
template <typename F>
struct Affine : Gemv {
  static constexpr int kTogether = 1;
  static constexpr std::int64_t kBytes = F::kBytes;
  static constexpr int kQuants = F::low(0).at;

  struct X {
    alignas(64) std::int8_t quants[2][2][64];  ///< of even and odd runs: 16 bytes of each, then the other 16
    float factors[16];                         ///< of each run, for its scale and its minimum
  };
  static void pack(const QuantizedGroup& from, int, X& to) {
    for (int run = 0; run < 8; ++run) {
      const bool high = !kHasHigh<F> && run % 2 == 1;
      to.factors[2 * run] = from.run_scales[run] * (high ? 0.0625f : 1.0f);
      to.factors[2 * run + 1] = -from.run_sums[run];
      for (int half = 0; half < 2; ++half)
        std::memcpy(to.quants[run % 2][half] + run / 2 * 16, from.quants + 32 * run + 16 * half, 16);
    }
  }

  /// The 6-bit scales and minimums, run by run; see SixBitScalesAndMinimums. The first 16 bytes of a block are d, dmin
  /// and the packed bytes.
  static ETNA_INLINE __m128i six_bits(__m128i head) {
    const __m128i low = _mm_shuffle_epi8(head, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i high =
        _mm_shuffle_epi8(head, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i four = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)),
                                       _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const __m128i six = _mm_ternarylogic_epi32(four, _mm_srli_epi16(high, 2), _mm_set1_epi8(0x30), 0xf8);
    return _mm_shuffle_epi8(six, _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  }

  /// 64 quants of even or odd runs from packed bytes. @param fifth the fifth bits of Q5_K @param bit that of a lane's
  /// run
  template <bool Odd>
  static ETNA_INLINE __m512i quants(__m512i packed, __m512i fifth, __m512i bit) {
    if constexpr (!kHasHigh<F>) return masked(packed, Odd ? 0xf0 : 0x0f);
    const __m512i four = masked(Odd ? _mm512_srli_epi16(packed, 4) : packed, 0x0f);
    return _mm512_mask_add_epi8(four, _mm512_test_epi8_mask(fifth, bit), four, _mm512_set1_epi8(16));
  }
  template <bool Odd>
  static ETNA_INLINE __m512 add(const __m512i (&packed)[2], const __m512i (&fifth)[2], const X& x, __m512 factors,
                                __m512 sum) {
    static constexpr Lanes kBit([](int i) { return (Odd ? 0x02020202u : 0x01010101u) << (i / 4 * 2); });
    static constexpr Lanes kScale([](int i) { return i / 4 * 4 + (Odd ? 2 : 0); });
    __m512i product = _mm512_setzero_si512();
    for (int half = 0; half < 2; ++half)
      product =
          _mm512_dpbusd_epi32(product, quants<Odd>(packed[half], fifth[half], in(kBit)), load(x.quants[Odd][half]));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), factors), sum);
  }
  static ETNA_INLINE __m512 group(const std::byte* b, const X& x, __m512 sum) {
    const __m128i head = load16(b);
    const __m512i low = load_once(b + kQuants), high = load_once(b + kQuants + 64);
    const __m512 own =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bits(head))), _mm512_load_ps(x.factors));
    const __m512 units = _mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_castps_pd(_mm_cvtph_ps(head))));
    const __m512 factors = _mm512_mul_ps(own, units);
    const __m512i packed[2] = {_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd)};
    __m512i fifth[2] = {};
    if constexpr (kHasHigh<F>) {
      fifth[0] = sixteen_everywhere(b + 16);
      fifth[1] = sixteen_everywhere(b + 32);
    }
    sum = _mm512_mask_add_ps(sum, 0xaaaa, sum, factors);
    sum = add<false>(packed, fifth, x, factors, sum);
    return add<true>(packed, fifth, x, factors, sum);
  }

  static ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
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
struct Six : Gemv {
  static constexpr int kTogether = 1, kUnit = Q6_K::kF16.first;
  static constexpr std::int64_t kBytes = Q6_K::kBytes;

  struct X {
    alignas(64) std::int8_t quants[4][64];
    float scales[16];
    float subtracted[16];  ///< multiplied by the scales and subtracted, since a quant is its value plus 32
  };
  static void pack(const QuantizedGroup& from, int, X& to) {
    std::memcpy(to.quants, from.quants, sizeof to.quants);
    std::memcpy(to.scales, from.scales, sizeof to.scales);
    for (int i = 0; i < 16; ++i) to.subtracted[i] = static_cast<float>(-32 * from.quant_sums[i]);
  }

  template <int C>
  static ETNA_INLINE void add(__m512i low, __m512i high, const X& x, __m512 scales, __m512& sum) {
    static constexpr Lanes kScale([](int i) { return 4 * C + i / 4; });
    const __m512i quants = _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x0f), low, high, 0xca);
    const __m512i product = _mm512_dpbusd_epi32(_mm512_setzero_si512(), quants, load(x.quants[C]));
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), scales), sum);
  }
  template <int H>
  static ETNA_INLINE void half(__m512i low, __m512i both, const X& x, __m512 scales, __m512& even, __m512& odd) {
    // Only one pair of bits of each nibble is kept, so that shifts leave the highest two bits of a quant 0.
    const __m512i high = _mm512_and_si512(both, halves(0x3333, 0xcccc));
    add<2 * H>(low, _mm512_sllv_epi16(high, halves(4, 2)), x, scales, even);
    add<2 * H + 1>(_mm512_srli_epi16(low, 4), _mm512_srlv_epi16(high, halves(0, 2)), x, scales, odd);
  }

  static ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (std::int64_t left = columns; left > 0; left -= kGroup, b += kBytes, ++x) {
      const __m512i low = load_once(b), low2 = load_once(b + 64);
      const __m512i high = twice(b + 128), high2 = twice(b + 160);
      const __m512 steps = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(b + 192)));
      const __m128 unit = _mm_cvtph_ps(_mm_cvtsi32_si128(bits_at<short>(b + kUnit)));
      const __m512 own = _mm512_mul_ps(steps, _mm512_load_ps(x->scales));
      const __m512 scales = _mm512_mul_ps(own, _mm512_broadcastss_ps(unit));
      odd = _mm512_fmadd_ps(scales, _mm512_load_ps(x->subtracted), odd);
      half<0>(low, high, *x, scales, even, odd);
      half<1>(low2, high2, *x, scales, even, odd);
    }
    _mm512_store_ps(sums, _mm512_add_ps(even, odd));
  }
};

// GEMM with quantized activations, as in cpu_kernels_avx2.cpp: sixteen rows of a weight are interleaved by u32s of four
// quants, so that a lane holds the sum of one row, and VNNI adds 64 products. Bound by the multipliers: 16 VNNI
// instructions and 8 multiply-adds for 1024 products. Four quants of x in a register serve 32 rows. Lost: 16 rows,
// which is bound by loads (0.9 of the speed; Zen 5), and widening to bf16 for oneDNN (0.3 of it with 12 rows of x, 0.7
// with 128).

/// 256 elements of sixteen rows: u32s of four quants, [64, 16], scales and minimums of 16 elements each, and the sums
/// of each 32 values.
struct Sixteen {
  alignas(64) std::byte quants[kGroup * 16];
  float scales[kSubs][16], minimums[kSubs][16], totals[8][16];
};
struct PackedHalves {
  Sixteen halves[2];
};

template <typename F, int C>
ETNA_INLINE void pack_quants(const std::byte* const* rows, std::byte* to) {
  __m512i u32s[16];
  for (int r = 0; r < 16; ++r) u32s[r] = quants_of<Avx512, F, C>(rows[r]);
  transpose(u32s);
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + (16 * C + i) * 64, u32s[i]);
}

/// The factors of the products of run c of a group: two for 16 elements each, or one for 32.
struct Factors {
  ETNA_INLINE Factors(const Sixteen& packed, int c)
      : scale(_mm512_load_ps(packed.scales[2 * c])),
        second_scale(_mm512_load_ps(packed.scales[2 * c + 1])),
        minimum(_mm512_load_ps(packed.minimums[2 * c])),
        second_minimum(_mm512_load_ps(packed.minimums[2 * c + 1])),
        total(_mm512_load_ps(packed.totals[c])) {}

  /// Adds the products of twice 16 elements and a row of x.
  template <typename F>
  ETNA_INLINE void add(__m512i low, __m512i high, const QuantizedGroup& x, int c, float* sums) const {
    const __m512 own = _mm512_set1_ps(x.run_scales[c]);
    __m512 sum = _mm512_load_ps(sums);
    if constexpr (F::kScaleKind != ScaleKind::floats_per_32) {
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(low), _mm512_mul_ps(scale, own), sum);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_mul_ps(second_scale, own), sum);
      sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(x.sums[2 * c]), sum);
      sum = _mm512_fnmadd_ps(second_minimum, _mm512_set1_ps(x.sums[2 * c + 1]), sum);
    } else {
      const __m512i product = _mm512_add_epi32(low, high);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_mul_ps(scale, own), sum);
      sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(x.run_sums[c]), sum);
    }
    _mm512_store_ps(sums, _mm512_fmadd_ps(total, _mm512_set1_ps(x.centers[c]), sum));
  }

  __m512 scale, second_scale, minimum, second_minimum, total;
};

template <typename F>
void pack_sixteen(const std::byte* const* rows, Sixteen& to) {
  __m512i scales[16], minimums[16];
  for (int r = 0; r < 16; ++r) {
    const Avx512::Scales own = Avx512::scales<F>(rows[r]);
    scales[r] = _mm512_castps_si512(own.scales);
    minimums[r] = _mm512_castps_si512(own.minimums);
  }
  transpose(scales);
  transpose(minimums);
  unrolled<4>([&](auto c) ETNA_INLINE_LAMBDA { pack_quants<F, c()>(rows, to.quants); });
  __m512 total = _mm512_setzero_ps();
  for (int i = 0; i < kSubs; ++i) {
    _mm512_store_si512(to.scales[i], scales[i]);
    _mm512_store_si512(to.minimums[i], minimums[i]);
    __m512i quants = _mm512_setzero_si512();
    for (int word = 4 * i; word < 4 * i + 4; ++word)
      quants = _mm512_dpbusd_epi32(quants, _mm512_load_si512(to.quants + 64 * word), _mm512_set1_epi8(1));
    total = _mm512_fmadd_ps(_mm512_castsi512_ps(scales[i]), _mm512_cvtepi32_ps(quants), total);
    total = _mm512_fnmadd_ps(_mm512_castsi512_ps(minimums[i]), _mm512_set1_ps(16), total);
    if (i % 2 == 0) continue;
    _mm512_store_ps(to.totals[i / 2], total);
    total = _mm512_setzero_ps();
  }
}
/// Broadcasts four quants of a row of x, from 4 · at on. Opaque to the compiler, which would otherwise load them again
/// for the other sixteen rows.
ETNA_INLINE __m512i u32_everywhere(const std::int8_t* x, int at) {
  int four;
  std::memcpy(&four, x + 4 * at, sizeof four);
  __m512i all = _mm512_set1_epi32(four);
  __asm__("" : "+v"(all));
  return all;
}

struct Panel {
  static constexpr int kLanes = 32;  ///< interleaved rows of a weight, sixteen to a register
  template <typename>
  using Packed = PackedHalves;

  template <typename F>
  static void pack(const std::byte* const (&rows)[kLanes], PackedHalves& to) {
    pack_sixteen<F>(rows, to.halves[0]);
    pack_sixteen<F>(rows + 16, to.halves[1]);
  }

  /// Adds the products of run c of a group and rows of x. @param sums [rows, 32]
  template <typename F>
  static void multiply_run(const PackedHalves& packed, int c, const QuantizedGroup* x, std::int64_t rows, float* sums) {
    const Sixteen &left = packed.halves[0], &right = packed.halves[1];
    __m512i w[16];
    for (int i = 0; i < 8; ++i) w[i] = _mm512_load_si512(left.quants + (8 * c + i) * 64);
    for (int i = 0; i < 8; ++i) w[8 + i] = _mm512_load_si512(right.quants + (8 * c + i) * 64);
    const Factors left_factors(left, c), right_factors(right, c);
    for (std::int64_t m = 0; m < rows; ++m) {
      const std::int8_t* own = x[m].quants + 32 * c;
      const __m512i none = _mm512_setzero_si512();
      __m512i products[4] = {none, none, none, none};
      for (int i = 0; i < 4; ++i) {
        const __m512i low = u32_everywhere(own, i), high = u32_everywhere(own, 4 + i);
        products[0] = _mm512_dpbusd_epi32(products[0], w[i], low);
        products[1] = _mm512_dpbusd_epi32(products[1], w[4 + i], high);
        products[2] = _mm512_dpbusd_epi32(products[2], w[8 + i], low);
        products[3] = _mm512_dpbusd_epi32(products[3], w[12 + i], high);
      }
      left_factors.add<F>(products[0], products[1], x[m], c, sums + kLanes * m);
      right_factors.add<F>(products[2], products[3], x[m], c, sums + kLanes * m + 16);
    }
  }
};

template <typename F>
void add_kernels(CpuKernels& to) {
  to.gemm = gemm<Panel, F>;
  if constexpr (std::is_same_v<F, TQ2_0> || std::is_same_v<F, I2_S>) to.gemv = gemv_kernels<Ternary<F>>();
  if constexpr (std::is_same_v<F, Q4_K> || std::is_same_v<F, Q5_K>) to.gemv = gemv_kernels<Affine<F>>();
  if constexpr (std::is_same_v<F, Q6_K>) to.gemv = gemv_kernels<Six>();
}

}  // namespace

CpuKernels kernels(std::string_view format) {
  CpuKernels found = find(format, BlockFormats());
  if (!__builtin_cpu_supports("avx512bf16")) found.dequantize_bf16 = nullptr;
  return found;
}

}  // namespace etna::quantized::avx512

ETNA_END_TARGET
#undef ETNA_BF16_TARGET

#endif
