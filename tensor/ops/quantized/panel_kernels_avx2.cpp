#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX2

// GCC 12 warns of what a lambda of a wider target returns, which never crosses a call: it is always inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx2.h>

// Many rows of x, in the same codes of 8 bits as few rows. Bound by arithmetic: 256 products take some 19 instructions,
// where f32 takes 32 multiply-adds. Eight rows of a weight are unpacked once and interleaved by words of four codes, so
// that a lane holds the sum of one row and a scale is a vector; products of small codes are added in 16 bits over a
// whole block of 32 before they are widened. 32 rows of a weight meet 32 rows of x while these are in the first cache.
namespace etna::quantized::avx2 {
namespace {

constexpr int kLanes = 8;  // rows of a weight beside each other

/// 256 elements of 8 rows: words of four codes, [64, 8], what codes are multiplied by, and the sums of each 32 values.
struct Packed {
  alignas(32) std::byte codes[kGroup * kLanes];
  float scales[8][kLanes], minimums[8][kLanes], totals[8][kLanes];
};
/// The same with scales for 16. In pairs: each twice, or those of neighbouring sub-blocks.
struct PackedWhole {
  alignas(32) std::byte codes[kGroup * kLanes];
  std::int16_t scales[kSubs][2 * kLanes], minimums[8][2 * kLanes];
  float unit[kLanes], least[kLanes], totals[8][kLanes];
};

template <typename F>
using PackedOf = std::conditional_t<kSixteens<F>, PackedWhole, Packed>;

ETNA_TARGET ETNA_INLINE void transpose(__m256i (&r)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 2; ++k) {
      b[4 * i + 2 * k] = _mm256_unpacklo_epi64(a[4 * i + k], a[4 * i + k + 2]);
      b[4 * i + 2 * k + 1] = _mm256_unpackhi_epi64(a[4 * i + k], a[4 * i + k + 2]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}
ETNA_TARGET ETNA_INLINE __m256i loaded(const void* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}
ETNA_TARGET ETNA_INLINE void stored(__m256i x, void* to) { _mm256_store_si256(static_cast<__m256i*>(to), x); }

template <typename F, int C>
ETNA_TARGET ETNA_INLINE void pack_codes(const std::byte* const (&rows)[kLanes], std::byte* to) {
  __m256i words[8];
  for (int r = 0; r < kLanes; ++r) words[r] = codes_of<F, C>(rows[r]);
  transpose(words);
  for (int i = 0; i < 8; ++i) stored(words[i], to + (8 * C + i) * 32);
}

ETNA_TARGET ETNA_INLINE void pack_floats(const __m256 (&rows)[kLanes], float (&to)[8][kLanes]) {
  __m256i words[8];
  for (int r = 0; r < kLanes; ++r) words[r] = _mm256_castps_si256(rows[r]);
  transpose(words);
  for (int i = 0; i < 8; ++i) stored(words[i], to[i]);
}

template <typename F>
ETNA_TARGET ETNA_INLINE void pack_steps(const std::byte* const (&rows)[kLanes], PackedOf<F>& to) {
  if constexpr (kSixteens<F>) {
    // By twos: two sub-blocks of a row are a word of 32 bits.
    __m256i scales[kLanes], minimums[kLanes];
    constexpr short kZero = kIs<F, Q6_K> ? 32 : kIs<F, Q3_K> ? 4 : 1;
    for (int r = 0; r < kLanes; ++r) {
      const WholeSteps steps = whole_steps_of<F>(rows[r]);
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
  } else {
    __m256 scales[kLanes], minimums[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      const Steps steps = steps_of<F>(rows[r]);
      scales[r] = steps.scales;
      minimums[r] = steps.minimums;
    }
    pack_floats(scales, to.scales);
    pack_floats(minimums, to.minimums);
  }
}

/// How many pairs of products fit in 16 bits together: 2 · 127 · code · pairs <= 32767.
template <typename F>
inline constexpr int kInSixteenBits = kSigned<F>                        ? 1
                                      : kIs<F, Q6_K>                    ? 2
                                      : kIs<F, Q5_0, Q5_1, Q5_K, MXFP4> ? 4
                                                                        : 8;

ETNA_TARGET ETNA_INLINE __m256i word_everywhere(const void* from) {
  int word;
  std::memcpy(&word, from, sizeof word);
  return _mm256_set1_epi32(word);
}

/// The products of words First ... First + 3 of a block, in lanes of 32 bits, times `factors` of 16 bits.
template <typename F, int First>
ETNA_TARGET ETNA_INLINE __m256i half_block(const __m256i (&w)[8], const std::byte* signs, const std::int8_t* x,
                                           __m256i factors) {
  __m256i pairs[4];
  for (int i = 0; i < 4; ++i) {
    const __m256i own = word_everywhere(x + 4 * (First + i));
    pairs[i] =
        _mm256_maddubs_epi16(w[First + i], kSigned<F> ? _mm256_sign_epi8(own, loaded(signs + 32 * (First + i))) : own);
  }
  if constexpr (kInSixteenBits<F> >= 4) {
    const __m256i all = _mm256_add_epi16(_mm256_add_epi16(pairs[0], pairs[1]), _mm256_add_epi16(pairs[2], pairs[3]));
    return kInSixteenBits<F> == 8 && !kSixteens<F> ? all : _mm256_madd_epi16(all, factors);
  } else if constexpr (kInSixteenBits<F> == 2) {
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi16(pairs[0], pairs[1]), factors),
                            _mm256_madd_epi16(_mm256_add_epi16(pairs[2], pairs[3]), factors));
  } else {
    for (__m256i& pair : pairs) pair = _mm256_madd_epi16(pair, factors);
    return _mm256_add_epi32(_mm256_add_epi32(pairs[0], pairs[1]), _mm256_add_epi32(pairs[2], pairs[3]));
  }
}

/// Adds the products of block c of a group with rows of x. @param sums [rows, 8]
template <typename F>
ETNA_TARGET void multiply_block(const PackedOf<F>& packed, int c, const RoundedGroup* x, std::int64_t rows,
                                float* sums) {
  const std::byte* codes = packed.codes + c * 32 * kLanes;
  __m256i w[8];
  for (int i = 0; i < 8; ++i) w[i] = kSigned<F> ? _mm256_abs_epi8(loaded(codes + 32 * i)) : loaded(codes + 32 * i);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t m = 0; m < rows; ++m) {
    const std::int8_t* own = x[m].codes + 32 * c;
    const __m256 scale = _mm256_broadcast_ss(x[m].block_scales + c);
    __m256 sum = _mm256_load_ps(sums + kLanes * m);
    if constexpr (kSixteens<F>) {
      __m256i product = _mm256_add_epi32(half_block<F, 0>(w, codes, own, loaded(packed.scales[2 * c])),
                                         half_block<F, 4>(w, codes, own, loaded(packed.scales[2 * c + 1])));
      const __m256i minimum = _mm256_madd_epi16(loaded(packed.minimums[c]), word_everywhere(x[m].code_sums + 2 * c));
      if constexpr (kIs<F, Q2_K>) {
        sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minimum), _mm256_mul_ps(_mm256_load_ps(packed.least), scale), sum);
      } else {
        product = _mm256_sub_epi32(product, minimum);
      }
      sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_mul_ps(_mm256_load_ps(packed.unit), scale), sum);
    } else {
      const __m256i low = half_block<F, 0>(w, codes, own, ones), high = half_block<F, 4>(w, codes, own, ones);
      const __m256i product =
          kInSixteenBits<F> == 8 ? _mm256_madd_epi16(_mm256_add_epi16(low, high), ones) : _mm256_add_epi32(low, high);
      const __m256 factors = _mm256_mul_ps(_mm256_load_ps(packed.scales[c]), scale);
      sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), factors, sum);
      if (kMinimums<F>)
        sum = _mm256_fnmadd_ps(_mm256_load_ps(packed.minimums[c]), _mm256_broadcast_ss(x[m].block_sums + c), sum);
    }
    sum = _mm256_fmadd_ps(_mm256_load_ps(packed.totals[c]), _mm256_broadcast_ss(x[m].centers + c), sum);
    _mm256_store_ps(sums + kLanes * m, sum);
  }
}

constexpr RoundedGroup kOnes = [] {
  RoundedGroup ones = {};
  for (std::int8_t& code : ones.codes) code = 1;
  for (std::int16_t& sum : ones.code_sums) sum = 16;
  for (int c = 0; c < 8; ++c) {
    ones.block_scales[c] = 1;
    ones.block_sums[c] = 32;
  }
  return ones;
}();

template <typename F>
ETNA_TARGET void pack(const std::byte* const (&rows)[kLanes], PackedOf<F>& to) {
  pack_steps<F>(rows, to);
  pack_codes<F, 0>(rows, to.codes);
  pack_codes<F, 1>(rows, to.codes);
  pack_codes<F, 2>(rows, to.codes);
  pack_codes<F, 3>(rows, to.codes);
  pack_codes<F, 4>(rows, to.codes);
  pack_codes<F, 5>(rows, to.codes);
  pack_codes<F, 6>(rows, to.codes);
  pack_codes<F, 7>(rows, to.codes);
  std::memset(to.totals, 0, sizeof to.totals);
  for (int c = 0; c < 8; ++c) {
    alignas(32) float totals[kLanes] = {};
    multiply_block<F>(to, c, &kOnes, 1, totals);
    std::memcpy(to.totals[c], totals, sizeof totals);
  }
}

#include <etna/tensor/ops/quantized/internal/panel_kernels.inc>

}  // namespace

PanelKernel panel_kernel(std::string_view format) { return find(format); }

}  // namespace etna::quantized::avx2

#endif
