#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX2

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx2.h>
#include <etna/tensor/ops/quantized/internal/read_rows.h>

// One row of x and ternary weights, as in one_row_kernels_avx512.cpp: two groups at once, with lanes exchanged so that
// the codes of a block of 32 fill two lanes. Four products are summed in 16 bits before they are widened. Instructions
// for a group of 256, before (row_kernels_avx2.cpp) and after: 61 and 43; ns from the caches on Zen 4: 6.5 and 3.6.
//
// Codes of four bits gain nothing: they would have to be shifted, and the exchange takes what the sums save.
namespace etna::quantized::avx2 {
namespace {

constexpr int kLanes = 8;

/// TQ2_0 and I2_S: 32 bytes of half h of a group hold block p + 4 h of 32 elements at bits 2 p.
template <typename F>
struct Ternary {
  static constexpr int kTogether = 2;
  static constexpr std::int64_t kBytes = kGroup / F::kElements * F::kBytes;

  /// By place and quarter of a block. Two lanes of 32 bits belong to each half of a group.
  struct X {
    alignas(64) std::int8_t codes[4][4][32];
    float scales[4][8];
    float subtracted[8];
    float unused[8];
  };
  static ETNA_TARGET void arrange(const RoundedGroup& from, int group, X& to) {
    for (int half = 0; half < 2; ++half) {
      const int first = 4 * group + 2 * half;
      to.subtracted[first] = to.subtracted[first + 1] = 0;
      for (int place = 0; place < 4; ++place) {
        const int block = 4 * half + (kIs<F, I2_S> ? 3 - place : place);
        const float scale = from.block_scales[block];
        to.scales[place][first] = to.scales[place][first + 1] = place % 2 == 0 ? scale : scale / 4;
        to.subtracted[first] -= from.block_sums[block];
        for (int quarter = 0; quarter < 4; ++quarter)
          std::memcpy(to.codes[place][quarter] + 4 * first, from.codes + 32 * block + 8 * quarter, 8);
      }
    }
  }

  static ETNA_TARGET ETNA_INLINE __m256i load(const void* from) {
    return _mm256_load_si256(static_cast<const __m256i*>(from));
  }
  /// @param quarters shifted so that codes are in the lower four bits
  template <int Place>
  static ETNA_TARGET ETNA_INLINE __m256 add(const __m256i (&quarters)[4], const X& x, __m256 sum) {
    const __m256i mask = _mm256_set1_epi8(Place % 2 == 0 ? 0x03 : 0x0c);
    __m256i pairs[4];
    for (int i = 0; i < 4; ++i)
      pairs[i] = _mm256_maddubs_epi16(_mm256_and_si256(quarters[i], mask), load(x.codes[Place][i]));
    const __m256i all = _mm256_add_epi16(_mm256_add_epi16(pairs[0], pairs[1]), _mm256_add_epi16(pairs[2], pairs[3]));
    const __m256i product = _mm256_madd_epi16(all, _mm256_set1_epi16(1));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_load_ps(x.scales[Place]), sum);
  }
  /// The same 16 bytes of two groups.
  static ETNA_TARGET ETNA_INLINE __m256i halves(const std::byte* first, const std::byte* second) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(second)), 1);
  }
  static ETNA_TARGET ETNA_INLINE __m256 groups(const std::byte* const (&b)[2], const X& x, __m256 sum) {
    const __m256i first = halves(b[0], b[1]), second = halves(b[0] + 16, b[1] + 16);
    const __m256i first2 = halves(b[0] + 32, b[1] + 32), second2 = halves(b[0] + 48, b[1] + 48);
    __m256i quarters[4] = {_mm256_unpacklo_epi64(first, first2), _mm256_unpackhi_epi64(first, first2),
                           _mm256_unpacklo_epi64(second, second2), _mm256_unpackhi_epi64(second, second2)};
    __m256 own = _mm256_load_ps(x.subtracted);
    if constexpr (kIs<F, I2_S>) own = _mm256_add_ps(sum, own);
    own = add<0>(quarters, x, own);
    own = add<1>(quarters, x, own);
    for (__m256i& quarter : quarters) quarter = _mm256_srli_epi16(quarter, 4);
    own = add<2>(quarters, x, own);
    own = add<3>(quarters, x, own);
    if constexpr (kIs<F, I2_S>) return own;
    const __m128i low = _mm_set1_epi16(bits_at<short>(b[0] + 64)), high = _mm_set1_epi16(bits_at<short>(b[1] + 64));
    return _mm256_fmadd_ps(own, _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high)), sum);
  }

  static ETNA_TARGET ETNA_INLINE void row(const std::byte* b, std::int64_t columns, const X* x, float* sums) {
    __m256 sum = _mm256_setzero_ps();
    std::int64_t left = columns;
    for (; left >= 2 * kGroup; left -= 2 * kGroup, b += 2 * kBytes, ++x) {
      look_ahead(b, 2 * kBytes);
      sum = groups({b, b + kBytes}, *x, sum);
    }
    if (left > 0) {
      look_ahead(b, left / kGroup * kBytes);
      sum = groups(RestOfRow<F, 2>(b, left).at, *x, sum);
    }
    _mm256_store_ps(sums, sum);
  }
};

ETNA_TARGET ETNA_INLINE void totals(const float (&sums)[4][kLanes], float* out) {
  const __m256 first = _mm256_hadd_ps(_mm256_load_ps(sums[0]), _mm256_load_ps(sums[1]));
  const __m256 second = _mm256_hadd_ps(_mm256_load_ps(sums[2]), _mm256_load_ps(sums[3]));
  const __m256 all = _mm256_hadd_ps(first, second);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

#include <etna/tensor/ops/quantized/internal/one_row_kernels.inc>

}  // namespace

OneRowKernels one_row_kernels(std::string_view format) {
  if (format == "TQ2_0") return kernels_of<Ternary<TQ2_0>>();
  if (format == "I2_S") return kernels_of<Ternary<I2_S>>();
  return {};
}

}  // namespace etna::quantized::avx2

#endif
