#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX512

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// What a lambda of a wider target returns never crosses a call: it is always inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/internal/formats_avx512.h>

// Many rows of x in codes of 8 bits, as in panel_kernels_avx2.cpp: sixteen rows of a weight are interleaved by words of
// four codes, so that a lane holds the sum of one row, and VNNI adds 64 products. Bound by the units that multiply: 16
// instructions of VNNI and 8 multiply-adds for 1024 products. A word of x serves 32 rows from a register; lost: 16
// rows, which loads bound (0.9 of the speed; Zen 5), and widening to bf16 for oneDNN (0.3 of it with 12 rows of x, 0.7
// with 128).
namespace etna::quantized::avx512 {
namespace {

constexpr int kLanes = 32;  // rows of a weight beside each other, sixteen in a register

/// 256 elements of sixteen rows: words of four codes, [64, 16], scales and minimums of 16 elements each, and the sums
/// of each 32 values.
struct Sixteen {
  alignas(64) std::byte codes[kGroup * 16];
  float scales[kSubs][16], minimums[kSubs][16], totals[8][16];
};
struct Packed {
  Sixteen halves[2];
};
template <typename>
using PackedOf = Packed;

/// Formats with a scale for each 16 elements; others have one for each 32.
template <typename F>
constexpr bool kSixteens = kIs<F, Q6_K, Q3_K, Q2_K>;

ETNA_TARGET ETNA_INLINE void transpose(__m512i (&r)[16]) {
  __m512i s[16];
  for (int i = 0; i < 8; ++i) {
    s[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  // Words 0, 1, 2 and 3 of each lane, of four rows.
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(s[4 * i + 1], s[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(s[4 * i + 1], s[4 * i + 3]);
  }
  // Lanes of four times four rows.
  for (int word = 0; word < 4; ++word) {
    const __m512i even_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0x88),
                  even_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0x88),
                  odd_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0xdd),
                  odd_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0xdd);
    s[word] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    s[word + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    s[word + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    s[word + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = s[i];
}

template <typename F, int C>
ETNA_TARGET ETNA_INLINE void pack_codes(const std::byte* const* rows, std::byte* to) {
  __m512i words[16];
  for (int r = 0; r < 16; ++r) words[r] = codes_of<F, C>(rows[r]);
  transpose(words);
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + (16 * C + i) * 64, words[i]);
}

/// What the products of block c of a group are multiplied by: those of 16 elements twice, or of 32.
struct Factors {
  ETNA_TARGET ETNA_INLINE Factors(const Sixteen& packed, int c)
      : scale(_mm512_load_ps(packed.scales[2 * c])),
        second_scale(_mm512_load_ps(packed.scales[2 * c + 1])),
        minimum(_mm512_load_ps(packed.minimums[2 * c])),
        second_minimum(_mm512_load_ps(packed.minimums[2 * c + 1])),
        total(_mm512_load_ps(packed.totals[c])) {}

  /// Adds the products of two times 16 elements with a row of x.
  template <typename F>
  ETNA_TARGET ETNA_INLINE void add(__m512i low, __m512i high, const RoundedGroup& x, int c, float* sums) const {
    const __m512 own = _mm512_set1_ps(x.block_scales[c]);
    __m512 sum = _mm512_load_ps(sums);
    if constexpr (kSixteens<F>) {
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(low), _mm512_mul_ps(scale, own), sum);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_mul_ps(second_scale, own), sum);
      sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(x.sums[2 * c]), sum);
      sum = _mm512_fnmadd_ps(second_minimum, _mm512_set1_ps(x.sums[2 * c + 1]), sum);
    } else {
      const __m512i product = _mm512_add_epi32(low, high);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), _mm512_mul_ps(scale, own), sum);
      sum = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(x.block_sums[c]), sum);
    }
    _mm512_store_ps(sums, _mm512_fmadd_ps(total, _mm512_set1_ps(x.centers[c]), sum));
  }

  __m512 scale, second_scale, minimum, second_minimum, total;
};

template <typename F>
ETNA_TARGET void pack_sixteen(const std::byte* const* rows, Sixteen& to) {
  __m512i scales[16], minimums[16];
  for (int r = 0; r < 16; ++r) {
    const Steps steps = steps_of<F>(rows[r]);
    scales[r] = _mm512_castps_si512(steps.scales);
    minimums[r] = _mm512_castps_si512(steps.minimums);
  }
  transpose(scales);
  transpose(minimums);
  pack_codes<F, 0>(rows, to.codes);
  pack_codes<F, 1>(rows, to.codes);
  pack_codes<F, 2>(rows, to.codes);
  pack_codes<F, 3>(rows, to.codes);
  __m512 total = _mm512_setzero_ps();
  for (int i = 0; i < kSubs; ++i) {
    _mm512_store_si512(to.scales[i], scales[i]);
    _mm512_store_si512(to.minimums[i], minimums[i]);
    __m512i codes = _mm512_setzero_si512();
    for (int word = 4 * i; word < 4 * i + 4; ++word)
      codes = _mm512_dpbusd_epi32(codes, _mm512_load_si512(to.codes + 64 * word), _mm512_set1_epi8(1));
    total = _mm512_fmadd_ps(_mm512_castsi512_ps(scales[i]), _mm512_cvtepi32_ps(codes), total);
    total = _mm512_fnmadd_ps(_mm512_castsi512_ps(minimums[i]), _mm512_set1_ps(16), total);
    if (i % 2 == 0) continue;
    _mm512_store_ps(to.totals[i / 2], total);
    total = _mm512_setzero_ps();
  }
}
template <typename F>
ETNA_TARGET void pack(const std::byte* const (&rows)[kLanes], Packed& to) {
  pack_sixteen<F>(rows, to.halves[0]);
  pack_sixteen<F>(rows + 16, to.halves[1]);
}

/// Word `at` of a row of x in all lanes. Opaque: the compiler would load it again for the other sixteen rows.
ETNA_TARGET ETNA_INLINE __m512i word_everywhere(const std::int8_t* x, int at) {
  int word;
  std::memcpy(&word, x + 4 * at, sizeof word);
  __m512i all = _mm512_set1_epi32(word);
  __asm__("" : "+v"(all));
  return all;
}

/// Adds the products of block c of a group with rows of x. @param sums [rows, 32]
template <typename F>
ETNA_TARGET void multiply_block(const Packed& packed, int c, const RoundedGroup* x, std::int64_t rows, float* sums) {
  const Sixteen &left = packed.halves[0], &right = packed.halves[1];
  __m512i w[16];
  for (int i = 0; i < 8; ++i) w[i] = _mm512_load_si512(left.codes + (8 * c + i) * 64);
  for (int i = 0; i < 8; ++i) w[8 + i] = _mm512_load_si512(right.codes + (8 * c + i) * 64);
  const Factors left_factors(left, c), right_factors(right, c);
  for (std::int64_t m = 0; m < rows; ++m) {
    const std::int8_t* own = x[m].codes + 32 * c;
    const __m512i none = _mm512_setzero_si512();
    __m512i products[4] = {none, none, none, none};
    for (int i = 0; i < 4; ++i) {
      const __m512i low = word_everywhere(own, i), high = word_everywhere(own, 4 + i);
      products[0] = _mm512_dpbusd_epi32(products[0], w[i], low);
      products[1] = _mm512_dpbusd_epi32(products[1], w[4 + i], high);
      products[2] = _mm512_dpbusd_epi32(products[2], w[8 + i], low);
      products[3] = _mm512_dpbusd_epi32(products[3], w[12 + i], high);
    }
    left_factors.add<F>(products[0], products[1], x[m], c, sums + kLanes * m);
    right_factors.add<F>(products[2], products[3], x[m], c, sums + kLanes * m + 16);
  }
}

#include <etna/tensor/ops/quantized/internal/panel_kernels.inc>

}  // namespace

PanelKernel panel_kernel(std::string_view format) { return find(format); }

}  // namespace etna::quantized::avx512

#endif
