#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX512

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// What a lambda of a wider target returns never crosses a call: it is always inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx512.h>
#include <etna/tensor/ops/quantized/internal/read_rows.h>
#include <etna/tensor/ops/quantized/internal/round_groups.h>

namespace etna::quantized::avx512 {
namespace {

struct Vector {
  /// Two chains of additions, since one would wait for itself.
  struct Sum {
    __m512 even, odd;
  };
  static ETNA_TARGET ETNA_INLINE Sum zero() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }
  static ETNA_TARGET ETNA_INLINE float total(const Sum& sum) {
    return _mm512_reduce_add_ps(_mm512_add_ps(sum.even, sum.odd));
  }

  /// Adds products of 64 codes: four lanes for each scale.
  template <int C>
  static ETNA_TARGET ETNA_INLINE void add(__m512i codes, const std::int8_t* own, __m512 scales, __m512& sum) {
    static constexpr Lanes kScale([](int i) { return 4 * C + i / 4; });
    const __m512i product = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, _mm512_load_si512(own + 64 * C));
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_permutexvar_ps(in(kScale), scales), sum);
  }

  template <typename F, int M>
  static ETNA_TARGET ETNA_INLINE void group(const std::byte* b, const RoundedGroup* x, Sum (&sums)[M]) {
    const Steps steps = steps_of<F>(b);
    const __m512i codes[4] = {codes_of<F, 0>(b), codes_of<F, 1>(b), codes_of<F, 2>(b), codes_of<F, 3>(b)};
    for (int m = 0; m < M; ++m) {
      const std::int8_t* own = x[m].codes;
      const __m512 scales = _mm512_mul_ps(steps.scales, _mm512_load_ps(x[m].scales));
      sums[m].odd = _mm512_fnmadd_ps(steps.minimums, _mm512_load_ps(x[m].sums), sums[m].odd);
      add<0>(codes[0], own, scales, sums[m].even);
      add<1>(codes[1], own, scales, sums[m].odd);
      add<2>(codes[2], own, scales, sums[m].even);
      add<3>(codes[3], own, scales, sums[m].odd);
    }
  }

  /// Sixteen values of a group from lane 16 q of some codes on.
  template <int Q>
  static ETNA_TARGET ETNA_INLINE __m512 values(__m512i codes, const float* scales, const float* minimums) {
    const __m512i sixteen = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(codes, Q));
    return _mm512_fmsub_ps(_mm512_cvtepi32_ps(sixteen), _mm512_set1_ps(scales[Q]), _mm512_set1_ps(minimums[Q]));
  }
  template <typename F>
  static ETNA_TARGET ETNA_INLINE void widen(const std::byte* b, float* out) {
    alignas(64) float scales[kSubs], minimums[kSubs];
    const Steps steps = steps_of<F>(b);
    _mm512_store_ps(scales, steps.scales);
    _mm512_store_ps(minimums, steps.minimums);
    const __m512i codes[4] = {codes_of<F, 0>(b), codes_of<F, 1>(b), codes_of<F, 2>(b), codes_of<F, 3>(b)};
    for (int c = 0; c < 4; ++c) {
      _mm512_storeu_ps(out + 64 * c, values<0>(codes[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 16, values<1>(codes[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 32, values<2>(codes[c], scales + 4 * c, minimums + 4 * c));
      _mm512_storeu_ps(out + 64 * c + 48, values<3>(codes[c], scales + 4 * c, minimums + 4 * c));
    }
  }
  /// Two times sixteen values, rounded to nearest even.
  static ETNA_BF16_TARGET ETNA_INLINE void narrow(const float* x, std::uint16_t* y) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
    _mm512_storeu_si512(y, (__m512i)both);
  }

  using Floats = __m512;
  static constexpr int kFloats = 16;
  static ETNA_TARGET ETNA_INLINE Floats none() { return _mm512_setzero_ps(); }
  static ETNA_TARGET ETNA_INLINE Floats load(const float* x) { return _mm512_loadu_ps(x); }
  static ETNA_TARGET ETNA_INLINE Floats load(const F16* x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  }
  static ETNA_TARGET ETNA_INLINE Floats load(const BF16* x) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  static ETNA_TARGET ETNA_INLINE void store(Floats x, float* to) { _mm512_storeu_ps(to, x); }
  static ETNA_TARGET ETNA_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static ETNA_TARGET ETNA_INLINE float total(Floats a, Floats b, Floats c, Floats d) {
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
  }
};

#include <etna/tensor/ops/quantized/internal/row_kernels.inc>

}  // namespace

RowKernels kernels(std::string_view format) {
  RowKernels found = find(format);
  if (!__builtin_cpu_supports("avx512bf16")) found.widen_bf16 = nullptr;
  found.panel = panel_kernel(format);
  found.one_row = one_row_kernels(format);
  return found;
}

}  // namespace etna::quantized::avx512

#endif
