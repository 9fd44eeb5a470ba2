#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>

#ifdef ETNA_KERNELS_AVX2

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstring>
#include <type_traits>

ETNA_BEGIN_TARGET("avx2,fma,f16c")

#include <etna/tensor/quant/internal/formats.h>
#include <etna/tensor/quant/internal/vector_avx2.h>
#include <etna/tensor/quant/internal/vector_portable.h>

namespace etna::quantized::avx2 {
namespace {

using namespace quant;

// Few rows of x. Bound by instructions, some sixty for a group of 256 and one row, or else by memory. 32 quants are
// multiplied as they are unpacked. Their scale, times that of x, is broadcast from the stack: the load is free, while
// permuting lanes takes two instructions on older processors. Scales of 16 elements are applied as 16-bit integers, by
// the instruction that has to add pairs of products anyway.
struct Vector {
  /// Independent accumulators, to hide the latency of additions: four for one row of x, else two.
  struct Sum {
    __m256 parts[4];
  };
  template <int M>
  static constexpr int kChains = M == 1 ? 4 : 2;
  static ETNA_INLINE Sum zero() {
    const __m256 none = _mm256_setzero_ps();
    return {{none, none, none, none}};
  }
  static ETNA_INLINE float total(__m256 sum) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
  static ETNA_INLINE float total(const Sum& sum) {
    return total(_mm256_add_ps(_mm256_add_ps(sum.parts[0], sum.parts[1]), _mm256_add_ps(sum.parts[2], sum.parts[3])));
  }

  /// The number of scales that group() stores for a group and a row of x.
  template <typename F>
  static constexpr int kStored = kHasFloatsPer16<F> ? 16 : 8;

  /// Adds the products of 32 quants. @param small for each half of a group, in formats with scales of 16 elements
  template <typename F, int C, int M>
  static ETNA_INLINE void add(const std::byte* b, const QuantizedGroup* x, const float* scales,
                              const __m256i (&small)[2], Sum (&sums)[M]) {
    const __m256i quants = quants_of<Avx2, F, C>(b);
    __m256i factors = _mm256_set1_epi16(1);
    if constexpr (kHasIntegersPer16<F>) {
      constexpr int kFirst = 0x0100 + 0x0404 * (C % 4), kSecond = kFirst + 0x0202;
      const __m256i places = _mm256_set_m128i(_mm_set1_epi16(kSecond), _mm_set1_epi16(kFirst));
      factors = _mm256_shuffle_epi8(small[C / 4], places);
    }
    for (int m = 0; m < M; ++m) {
      const __m256i own = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[m].quants + 32 * C));
      const __m256i pairs = kTooLarge<F> ? _mm256_maddubs_epi16(_mm256_abs_epi8(quants), _mm256_sign_epi8(own, quants))
                                         : _mm256_maddubs_epi16(quants, own);
      const __m256 product = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, factors));
      __m256& sum = sums[m].parts[C % kChains<M>];
      const float* scale = scales + kStored<F> * m + kStored<F> / 8 * C;
      if constexpr (kHasFloatsPer16<F>)
        sum = _mm256_fmadd_ps(product, _mm256_set_m128(_mm_broadcast_ss(scale + 1), _mm_broadcast_ss(scale)), sum);
      else
        sum = _mm256_fmadd_ps(product, _mm256_broadcast_ss(scale), sum);
    }
  }

  template <typename F, int M>
  static ETNA_INLINE void group(const std::byte* b, const QuantizedGroup* x, Sum (&sums)[M]) {
    alignas(32) float scales[M][kStored<F>];
    __m256i small[2] = {};
    if constexpr (kHasIntegersPer16<F>) {
      const Avx2::SmallScales own_scales = Avx2::small_scales<F>(b);
      small[0] = _mm256_permute2x128_si256(own_scales.scales, own_scales.scales, 0x00);
      small[1] = _mm256_permute2x128_si256(own_scales.scales, own_scales.scales, 0x11);
      for (int m = 0; m < M; ++m) {
        const __m256 own = _mm256_load_ps(x[m].run_scales);
        const __m256i quant_sums = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[m].quant_sums));
        const __m256 minimums = _mm256_cvtepi32_ps(_mm256_madd_epi16(quant_sums, own_scales.minimums));
        __m256& sum = sums[m].parts[kChains<M> - 1];
        sum = _mm256_fnmadd_ps(minimums, _mm256_mul_ps(own_scales.least, own), sum);
        _mm256_store_ps(scales[m], _mm256_mul_ps(own_scales.unit, own));
      }
    } else if constexpr (kHasFloatsPer16<F>) {
      const ScalesPer16 own_scales = F::template scales_per_16<Avx2>(b);
      const __m256 zero = _mm256_set1_ps(kZeroOf<F>);
      for (int m = 0; m < M; ++m) {
        _mm256_store_ps(scales[m], _mm256_mul_ps(own_scales.first, _mm256_load_ps(x[m].scales)));
        _mm256_store_ps(scales[m] + 8, _mm256_mul_ps(own_scales.last, _mm256_load_ps(x[m].scales + 8)));
        __m256& sum = sums[m].parts[kChains<M> - 1];
        sum = _mm256_fnmadd_ps(_mm256_mul_ps(own_scales.first, zero), _mm256_load_ps(x[m].sums), sum);
        sum = _mm256_fnmadd_ps(_mm256_mul_ps(own_scales.last, zero), _mm256_load_ps(x[m].sums + 8), sum);
      }
    } else {
      const RunScales own_scales = Avx2::run_scales<F>(b);
      for (int m = 0; m < M; ++m) {
        _mm256_store_ps(scales[m], _mm256_mul_ps(own_scales.scales, _mm256_load_ps(x[m].run_scales)));
        __m256& sum = sums[m].parts[kChains<M> - 1];
        if (kHasMinimums<F>) sum = _mm256_fnmadd_ps(own_scales.minimums, _mm256_load_ps(x[m].run_sums), sum);
      }
    }
    // Opaque to the compiler, so that it uses offsets from one pointer instead of keeping 8 M addresses in memory.
    const float* all = scales[0];
    __asm__("" : "+r"(all) : : "memory");
    unrolled<8>([&](auto run) ETNA_INLINE_LAMBDA { add<F, run(), M>(b, x, all, small, sums); });
  }

  template <typename F, int C>
  static ETNA_INLINE void dequantize_run(const std::byte* b, const float* scales, const float* minimums, float* out) {
    alignas(32) std::byte quants[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(quants), quants_of<Avx2, F, C>(b));
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(quants + 8 * i));
      const __m256i wide = kTooLarge<F> ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
      const int sub = 2 * C + i / 2;
      _mm256_storeu_ps(out + 32 * C + 8 * i, _mm256_fmsub_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(scales[sub]),
                                                             _mm256_set1_ps(minimums[sub])));
    }
  }
  template <typename F>
  static ETNA_INLINE void dequantize(const std::byte* b, float* out) {
    alignas(32) float scales[kSubs], minimums[kSubs];
    Avx2::scales_per_16<F, true>(b, scales, minimums);
    unrolled<8>([&](auto run) ETNA_INLINE_LAMBDA { dequantize_run<F, run()>(b, scales, minimums, out); });
  }
  static ETNA_INLINE void round_bf16(const float* x, std::uint16_t* y) { quant::round_bf16(x, y); }

  using Floats = __m256;
  static constexpr int kFloats = 8;
  static ETNA_INLINE Floats none() { return _mm256_setzero_ps(); }
  static ETNA_INLINE Floats load(const float* x) { return _mm256_loadu_ps(x); }
  static ETNA_INLINE Floats load(const F16* x) { return _mm256_cvtph_ps(load16(x)); }
  static ETNA_INLINE Floats load(const BF16* x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(x)), 16));
  }
  static ETNA_INLINE void store(Floats x, float* to) { _mm256_storeu_ps(to, x); }
  static ETNA_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static ETNA_INLINE float total(Floats a, Floats b, Floats c, Floats d) {
    return total(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
  }
};

#define ETNA_BF16_TARGET
#include <etna/tensor/ops/quantized/internal/cpu_kernels.inc>
#undef ETNA_BF16_TARGET

// GEMV with ternary weights, as in cpu_kernels_avx512.cpp: two groups at once, with lanes permuted so that the quants
// of a run fill two lanes. Four products are summed in 16 bits before they are widened. Instructions for a group of 256
// with Vector and with this kernel: 61 and 43; ns from the caches on Zen 4: 6.5 and 3.6.
//
// 4-bit quants gain nothing from this: they would have to be shifted, and the permutation costs what the sums save.

/// TQ2_0 and I2_S: 32 bytes of half h of a group hold one of runs 4 h ... 4 h + 3 at bits 2 · place.
template <typename F>
struct Ternary {
  static constexpr int kTogether = 2, kLanes = 8;
  static constexpr std::int64_t kBytes = kGroupBytes<F>;

  /// Indexed by place and quarter of a run. Each half of a group has two 32-bit lanes.
  struct X {
    alignas(64) std::int8_t quants[4][4][32];
    float scales[4][8];
    float subtracted[8];
    float unused[8];
  };
  static void pack(const QuantizedGroup& from, int group, X& to) {
    for (int half = 0; half < 2; ++half) {
      const int first = 4 * group + 2 * half;
      to.subtracted[first] = to.subtracted[first + 1] = 0;
      for (int place = 0; place < 4; ++place) {
        const int run = 4 * half + kRunAt<F>[place];
        const float scale = from.run_scales[run];
        to.scales[place][first] = to.scales[place][first + 1] = place % 2 == 0 ? scale : scale / 4;
        to.subtracted[first] -= from.run_sums[run];
        for (int quarter = 0; quarter < 4; ++quarter)
          std::memcpy(to.quants[place][quarter] + 4 * first, from.quants + 32 * run + 8 * quarter, 8);
      }
    }
  }

  static ETNA_INLINE __m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
  /// @param quarters shifted so that the quants are in the lower four bits
  template <int Place>
  static ETNA_INLINE __m256 add(const __m256i (&quarters)[4], const X& x, __m256 sum) {
    const __m256i mask = _mm256_set1_epi8(Place % 2 == 0 ? 0x03 : 0x0c);
    __m256i pairs[4];
    for (int i = 0; i < 4; ++i)
      pairs[i] = _mm256_maddubs_epi16(_mm256_and_si256(quarters[i], mask), load(x.quants[Place][i]));
    const __m256i all = _mm256_add_epi16(_mm256_add_epi16(pairs[0], pairs[1]), _mm256_add_epi16(pairs[2], pairs[3]));
    const __m256i product = _mm256_madd_epi16(all, _mm256_set1_epi16(1));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_load_ps(x.scales[Place]), sum);
  }
  /// The same 16 bytes of two groups.
  static ETNA_INLINE __m256i halves(const std::byte* first, const std::byte* second) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(first)), load16(second), 1);
  }
  static ETNA_INLINE __m256 groups(const std::byte* const (&b)[2], const X& x, __m256 sum) {
    const __m256i first = halves(b[0], b[1]), second = halves(b[0] + 16, b[1] + 16);
    const __m256i first2 = halves(b[0] + 32, b[1] + 32), second2 = halves(b[0] + 48, b[1] + 48);
    __m256i quarters[4] = {_mm256_unpacklo_epi64(first, first2), _mm256_unpackhi_epi64(first, first2),
                           _mm256_unpacklo_epi64(second, second2), _mm256_unpackhi_epi64(second, second2)};
    __m256 own = _mm256_load_ps(x.subtracted);
    if constexpr (F::kF16.first < 0) own = _mm256_add_ps(sum, own);
    own = add<0>(quarters, x, own);
    own = add<1>(quarters, x, own);
    for (__m256i& quarter : quarters) quarter = _mm256_srli_epi16(quarter, 4);
    own = add<2>(quarters, x, own);
    own = add<3>(quarters, x, own);
    if constexpr (F::kF16.first < 0) return own;
    const __m128i low = _mm_set1_epi16(bits_at<short>(b[0] + F::kF16.first)),
                  high = _mm_set1_epi16(bits_at<short>(b[1] + F::kF16.first));
    return _mm256_fmadd_ps(own, _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high)), sum);
  }

  static ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m256 sum = _mm256_setzero_ps();
    std::int64_t left = columns;
    for (; left >= 2 * kGroup; left -= 2 * kGroup, b += 2 * kBytes, ++x) {
      prefetch(b, 2 * kBytes);
      sum = groups({b, b + kBytes}, *x, sum);
    }
    if (left > 0) {
      prefetch(b, left / kGroup * kBytes);
      sum = groups(RestOfRow<F, 2>(b, left).at, *x, sum);
    }
    _mm256_store_ps(sums, sum);
  }

  static ETNA_INLINE void totals(const float (&sums)[4][kLanes], float* out) {
    const __m256 first = _mm256_hadd_ps(_mm256_load_ps(sums[0]), _mm256_load_ps(sums[1]));
    const __m256 second = _mm256_hadd_ps(_mm256_load_ps(sums[2]), _mm256_load_ps(sums[3]));
    const __m256 all = _mm256_hadd_ps(first, second);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
};

// GEMM with quantized activations: many rows of x, quantized to 8 bits like few rows are. Bound by arithmetic: 256
// products take some 19 instructions, where f32 takes 32 multiply-adds. Eight rows of a weight are unpacked once and
// interleaved by u32s of four quants, so that a lane holds the sum of one row and the scales form a vector. Products of
// small quants are added in 16 bits over a whole run before they are widened. 32 rows of a weight are multiplied with
// 32 rows of x while these are in the L1 cache.

constexpr int kPanelLanes = 8;  // interleaved rows of a weight

/// 256 elements of 8 rows: u32s of four quants, [64, 8], the scales of the quants, and the sums of each 32 values.
struct PackedFloatsPer32 {
  alignas(32) std::byte quants[kGroup * kPanelLanes];
  float scales[8][kPanelLanes], minimums[8][kPanelLanes], totals[8][kPanelLanes];
};
/// The same with scales of 16 elements, in pairs: each one twice, or those of two neighbouring sub-blocks.
struct PackedIntegersPer16 {
  alignas(32) std::byte quants[kGroup * kPanelLanes];
  std::int16_t scales[kSubs][2 * kPanelLanes], minimums[8][2 * kPanelLanes];
  float unit[kPanelLanes], least[kPanelLanes], totals[8][kPanelLanes];
};
struct PackedFloatsPer16 {
  alignas(32) std::byte quants[kGroup * kPanelLanes];
  float scales[kSubs][kPanelLanes], minimums[kSubs][kPanelLanes], totals[8][kPanelLanes];
};
template <typename F>
using PackedOf = std::conditional_t<kHasIntegersPer16<F>, PackedIntegersPer16,  //
                                    std::conditional_t<kHasFloatsPer16<F>, PackedFloatsPer16, PackedFloatsPer32>>;

ETNA_INLINE __m256i loaded(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
ETNA_INLINE void stored(__m256i x, void* to) { _mm256_store_si256(static_cast<__m256i*>(to), x); }

template <typename F, int C>
ETNA_INLINE void pack_quants(const std::byte* const (&rows)[kPanelLanes], std::byte* to) {
  __m256i u32s[8];
  for (int r = 0; r < kPanelLanes; ++r) u32s[r] = quants_of<Avx2, F, C>(rows[r]);
  transpose(u32s);
  for (int i = 0; i < 8; ++i) stored(u32s[i], to + (8 * C + i) * 32);
}

ETNA_INLINE void pack_floats(const __m256 (&rows)[kPanelLanes], float (*to)[kPanelLanes]) {
  __m256i u32s[8];
  for (int r = 0; r < kPanelLanes; ++r) u32s[r] = _mm256_castps_si256(rows[r]);
  transpose(u32s);
  for (int i = 0; i < 8; ++i) stored(u32s[i], to[i]);
}

template <typename F>
ETNA_INLINE void pack_scales(const std::byte* const (&rows)[kPanelLanes], PackedOf<F>& to) {
  if constexpr (kHasIntegersPer16<F>) {
    // In pairs: two sub-blocks of a row form a u32.
    __m256i scales[kPanelLanes], minimums[kPanelLanes];
    constexpr short kZero = F::kMinimums ? 1 : F::kZero;
    for (int r = 0; r < kPanelLanes; ++r) {
      const Avx2::SmallScales steps = Avx2::small_scales<F>(rows[r]);
      scales[r] = steps.scales;
      minimums[r] = _mm256_mullo_epi16(steps.minimums, _mm256_set1_epi16(kZero));
      to.unit[r] = _mm256_cvtss_f32(steps.unit);
      to.least[r] = _mm256_cvtss_f32(steps.least);
    }
    transpose(scales);
    transpose(minimums);
    const __m256i even = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13));
    const __m256i odd = _mm256_add_epi8(even, _mm256_set1_epi8(2));
    for (int i = 0; i < 8; ++i) {
      stored(_mm256_shuffle_epi8(scales[i], even), to.scales[2 * i]);
      stored(_mm256_shuffle_epi8(scales[i], odd), to.scales[2 * i + 1]);
      stored(minimums[i], to.minimums[i]);
    }
  } else if constexpr (kHasFloatsPer16<F>) {
    __m256 first[kPanelLanes], last[kPanelLanes];
    for (int r = 0; r < kPanelLanes; ++r) {
      const ScalesPer16 own = F::template scales_per_16<Avx2>(rows[r]);
      first[r] = own.first;
      last[r] = own.last;
    }
    pack_floats(first, to.scales);
    pack_floats(last, to.scales + 8);
    for (int i = 0; i < kSubs; ++i)
      for (int r = 0; r < kPanelLanes; ++r) to.minimums[i][r] = to.scales[i][r] * static_cast<float>(kZeroOf<F>);
  } else {
    __m256 scales[kPanelLanes], minimums[kPanelLanes];
    for (int r = 0; r < kPanelLanes; ++r) {
      const RunScales steps = Avx2::run_scales<F>(rows[r]);
      scales[r] = steps.scales;
      minimums[r] = steps.minimums;
    }
    pack_floats(scales, to.scales);
    pack_floats(minimums, to.minimums);
  }
}

/// How many pairs of products can be summed in 16 bits.
template <typename F>
constexpr int pairs_in_16_bits() {
  constexpr int kPair = 2 * 127 * (kTooLarge<F> ? 128 : F::kLast);
  return 8 * kPair <= 32767 ? 8 : 4 * kPair <= 32767 ? 4 : 2 * kPair <= 32767 ? 2 : 1;
}
template <typename F>
inline constexpr int kInSixteenBits = pairs_in_16_bits<F>();

ETNA_INLINE __m256i u32_everywhere(const void* from) {
  int bits;
  std::memcpy(&bits, from, sizeof bits);
  return _mm256_set1_epi32(bits);
}

/// The products of u32s First ... First + 3 of a run times 16-bit `factors`, in 32-bit lanes.
template <typename F, int First>
ETNA_INLINE __m256i half_run(const __m256i (&w)[8], const std::byte* signs, const std::int8_t* x, __m256i factors) {
  __m256i pairs[4];
  for (int i = 0; i < 4; ++i) {
    const __m256i own = u32_everywhere(x + 4 * (First + i));
    pairs[i] = _mm256_maddubs_epi16(w[First + i],
                                    kTooLarge<F> ? _mm256_sign_epi8(own, loaded(signs + 32 * (First + i))) : own);
  }
  if constexpr (kInSixteenBits<F> >= 4) {
    const __m256i all = _mm256_add_epi16(_mm256_add_epi16(pairs[0], pairs[1]), _mm256_add_epi16(pairs[2], pairs[3]));
    return kInSixteenBits<F> == 8 && F::kScaleKind == ScaleKind::floats_per_32 ? all : _mm256_madd_epi16(all, factors);
  } else if constexpr (kInSixteenBits<F> == 2) {
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi16(pairs[0], pairs[1]), factors),
                            _mm256_madd_epi16(_mm256_add_epi16(pairs[2], pairs[3]), factors));
  } else {
    for (__m256i& pair : pairs) pair = _mm256_madd_epi16(pair, factors);
    return _mm256_add_epi32(_mm256_add_epi32(pairs[0], pairs[1]), _mm256_add_epi32(pairs[2], pairs[3]));
  }
}

constexpr QuantizedGroup kOnes = [] {
  QuantizedGroup ones = {};
  for (std::int8_t& quant : ones.quants) quant = 1;
  for (std::int16_t& sum : ones.quant_sums) sum = 16;
  for (float& sum : ones.sums) sum = 16;
  for (int c = 0; c < 8; ++c) {
    ones.run_scales[c] = 1;
    ones.run_sums[c] = 32;
  }
  return ones;
}();

struct Panel {
  static constexpr int kLanes = kPanelLanes;
  template <typename F>
  using Packed = PackedOf<F>;

  /// Adds the products of run c of a group and rows of x. @param sums [rows, 8]
  template <typename F>
  static void multiply_run(const Packed<F>& packed, int c, const QuantizedGroup* x, std::int64_t rows, float* sums) {
    const std::byte* quants = packed.quants + c * 32 * kLanes;
    __m256i w[8];
    for (int i = 0; i < 8; ++i)
      w[i] = kTooLarge<F> ? _mm256_abs_epi8(loaded(quants + 32 * i)) : loaded(quants + 32 * i);
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::int64_t m = 0; m < rows; ++m) {
      const std::int8_t* own = x[m].quants + 32 * c;
      const __m256 scale = _mm256_broadcast_ss(x[m].run_scales + c);
      __m256 sum = _mm256_load_ps(sums + kLanes * m);
      if constexpr (kHasIntegersPer16<F>) {
        __m256i product = _mm256_add_epi32(half_run<F, 0>(w, quants, own, loaded(packed.scales[2 * c])),
                                           half_run<F, 4>(w, quants, own, loaded(packed.scales[2 * c + 1])));
        const __m256i minimum = _mm256_madd_epi16(loaded(packed.minimums[c]), u32_everywhere(x[m].quant_sums + 2 * c));
        if constexpr (F::kMinimums) {
          sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minimum), _mm256_mul_ps(_mm256_load_ps(packed.least), scale), sum);
        } else {
          product = _mm256_sub_epi32(product, minimum);
        }
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_mul_ps(_mm256_load_ps(packed.unit), scale), sum);
      } else if constexpr (kHasFloatsPer16<F>) {
        const __m256i products[2] = {half_run<F, 0>(w, quants, own, ones), half_run<F, 4>(w, quants, own, ones)};
        for (int part = 0; part < 2; ++part) {
          const __m256 factors = _mm256_mul_ps(_mm256_load_ps(packed.scales[2 * c + part]), scale);
          sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products[part]), factors, sum);
          const __m256 minimums = _mm256_load_ps(packed.minimums[2 * c + part]);
          sum = _mm256_fnmadd_ps(minimums, _mm256_broadcast_ss(x[m].sums + 2 * c + part), sum);
        }
      } else {
        const __m256i low = half_run<F, 0>(w, quants, own, ones), high = half_run<F, 4>(w, quants, own, ones);
        const __m256i product =
            kInSixteenBits<F> == 8 ? _mm256_madd_epi16(_mm256_add_epi16(low, high), ones) : _mm256_add_epi32(low, high);
        const __m256 factors = _mm256_mul_ps(_mm256_load_ps(packed.scales[c]), scale);
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), factors, sum);
        if (kHasMinimums<F>)
          sum = _mm256_fnmadd_ps(_mm256_load_ps(packed.minimums[c]), _mm256_broadcast_ss(x[m].run_sums + c), sum);
      }
      sum = _mm256_fmadd_ps(_mm256_load_ps(packed.totals[c]), _mm256_broadcast_ss(x[m].centers + c), sum);
      _mm256_store_ps(sums + kLanes * m, sum);
    }
  }

  template <typename F>
  static void pack(const std::byte* const (&rows)[kLanes], PackedOf<F>& to) {
    pack_scales<F>(rows, to);
    unrolled<8>([&](auto run) ETNA_INLINE_LAMBDA { pack_quants<F, run()>(rows, to.quants); });
    std::memset(to.totals, 0, sizeof to.totals);
    for (int c = 0; c < 8; ++c) {
      alignas(32) float totals[kLanes] = {};
      multiply_run<F>(to, c, &kOnes, 1, totals);
      std::memcpy(to.totals[c], totals, sizeof totals);
    }
  }
};

template <typename F>
void add_kernels(CpuKernels& to) {
  to.gemm = gemm<Panel, F>;
  to.lookup = lookup_tables(F::kDescription.name);
  if constexpr (std::is_same_v<F, TQ2_0> || std::is_same_v<F, I2_S>) to.gemv = gemv_kernels<Ternary<F>>();
}

}  // namespace

CpuKernels kernels(std::string_view format) { return find(format, BlockFormats()); }

}  // namespace etna::quantized::avx2

ETNA_END_TARGET

#endif
