#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX2

// GCC 12 warns of what a lambda of a wider target returns, which never crosses a call: it is always inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx2.h>
#include <etna/tensor/ops/quantized/internal/read_rows.h>
#include <etna/tensor/ops/quantized/internal/round_groups.h>

// Few rows of x. Bound by the instructions that a group of 256 takes, some sixty with one row, until memory is. Codes
// of 32 are multiplied as they are unpacked; their scale, times that of x, is read back from the stack to all lanes,
// since a load is free where a permutation of lanes is two instructions on older processors. Formats with scales for 16
// apply them as integers of 16 bits, in the instruction that adds pairs anyhow.
namespace etna::quantized::avx2 {
namespace {

struct Vector {
  /// Chains of additions, since one would wait for itself: four with one row of x, else two.
  struct Sum {
    __m256 parts[4];
  };
  template <int M>
  static constexpr int kChains = M == 1 ? 4 : 2;
  static ETNA_TARGET ETNA_INLINE Sum zero() {
    const __m256 none = _mm256_setzero_ps();
    return {{none, none, none, none}};
  }
  static ETNA_TARGET ETNA_INLINE float total(__m256 sum) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
  static ETNA_TARGET ETNA_INLINE float total(const Sum& sum) {
    return total(_mm256_add_ps(_mm256_add_ps(sum.parts[0], sum.parts[1]), _mm256_add_ps(sum.parts[2], sum.parts[3])));
  }

  /// Adds the products of 32 codes. @param wholes of formats with scales for 16, for each half of a group
  template <typename F, int C, int M>
  static ETNA_TARGET ETNA_INLINE void add(const std::byte* b, const RoundedGroup* x, const float* scales,
                                          const __m256i (&wholes)[2], Sum (&sums)[M]) {
    const __m256i codes = codes_of<F, C>(b);
    __m256i factors = _mm256_set1_epi16(1);
    if constexpr (kSixteens<F>) {
      constexpr int kFirst = 0x0100 + 0x0404 * (C % 4), kSecond = kFirst + 0x0202;
      const __m256i places = _mm256_set_m128i(_mm_set1_epi16(kSecond), _mm_set1_epi16(kFirst));
      factors = _mm256_shuffle_epi8(wholes[C / 4], places);
    }
    for (int m = 0; m < M; ++m) {
      const __m256i own = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[m].codes + 32 * C));
      const __m256i pairs = kSigned<F> ? _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(own, codes))
                                       : _mm256_maddubs_epi16(codes, own);
      const __m256 product = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, factors));
      __m256& sum = sums[m].parts[C % kChains<M>];
      sum = _mm256_fmadd_ps(product, _mm256_broadcast_ss(scales + 8 * m + C), sum);
    }
  }

  template <typename F, int M>
  static ETNA_TARGET ETNA_INLINE void group(const std::byte* b, const RoundedGroup* x, Sum (&sums)[M]) {
    alignas(32) float scales[M][8];
    __m256i wholes[2] = {};
    if constexpr (kSixteens<F>) {
      const WholeSteps steps = whole_steps_of<F>(b);
      wholes[0] = _mm256_permute2x128_si256(steps.scales, steps.scales, 0x00);
      wholes[1] = _mm256_permute2x128_si256(steps.scales, steps.scales, 0x11);
      for (int m = 0; m < M; ++m) {
        const __m256 own = _mm256_load_ps(x[m].block_scales);
        const __m256i code_sums = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[m].code_sums));
        const __m256 minimums = _mm256_cvtepi32_ps(_mm256_madd_epi16(code_sums, steps.minimums));
        __m256& sum = sums[m].parts[kChains<M> - 1];
        sum = _mm256_fnmadd_ps(minimums, _mm256_mul_ps(steps.least, own), sum);
        _mm256_store_ps(scales[m], _mm256_mul_ps(steps.unit, own));
      }
    } else {
      const Steps steps = steps_of<F>(b);
      for (int m = 0; m < M; ++m) {
        _mm256_store_ps(scales[m], _mm256_mul_ps(steps.scales, _mm256_load_ps(x[m].block_scales)));
        __m256& sum = sums[m].parts[kChains<M> - 1];
        if (kMinimums<F>) sum = _mm256_fnmadd_ps(steps.minimums, _mm256_load_ps(x[m].block_sums), sum);
      }
    }
    // Opaque, so that the compiler adds to it instead of keeping 8 M addresses in memory.
    const float* all = scales[0];
    __asm__("" : "+r"(all) : : "memory");
    add<F, 0, M>(b, x, all, wholes, sums);
    add<F, 1, M>(b, x, all, wholes, sums);
    add<F, 2, M>(b, x, all, wholes, sums);
    add<F, 3, M>(b, x, all, wholes, sums);
    add<F, 4, M>(b, x, all, wholes, sums);
    add<F, 5, M>(b, x, all, wholes, sums);
    add<F, 6, M>(b, x, all, wholes, sums);
    add<F, 7, M>(b, x, all, wholes, sums);
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
  static ETNA_TARGET ETNA_INLINE void store_twice(__m256 eight, float* to) {
    const __m256 low = _mm256_unpacklo_ps(eight, eight), high = _mm256_unpackhi_ps(eight, eight);
    _mm256_store_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_store_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  /// Sixteen numbers of 16 bits times a factor.
  static ETNA_TARGET ETNA_INLINE void store_floats(__m256i numbers, __m256 factor, float* to) {
    const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(numbers)),
                  high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(numbers, 1));
    _mm256_store_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(low), factor));
    _mm256_store_ps(to + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), factor));
  }
  template <typename F>
  static ETNA_TARGET ETNA_INLINE void widen(const std::byte* b, float* out) {
    alignas(32) float scales[kSubs], minimums[kSubs];
    if constexpr (kSixteens<F>) {
      const WholeSteps steps = whole_steps_of<F>(b);
      store_floats(steps.scales, steps.unit, scales);
      store_floats(steps.minimums, steps.least, minimums);
    } else {
      const Steps steps = steps_of<F>(b);
      store_twice(steps.scales, scales);
      store_twice(steps.minimums, minimums);
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

#include <etna/tensor/ops/quantized/internal/row_kernels.inc>

}  // namespace

RowKernels kernels(std::string_view format) {
  RowKernels found = find(format);
  found.panel = panel_kernel(format);
  found.tables = table_kernels(format);
  found.one_row = one_row_kernels(format);
  return found;
}

}  // namespace etna::quantized::avx2

#endif
