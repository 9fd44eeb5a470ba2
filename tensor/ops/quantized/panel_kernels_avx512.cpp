#include <etna/tensor/ops/quantized/row_kernels_targets.h>

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

#include <etna/tensor/ops/quantized/panels_avx512.h>

// Many rows of x in codes of 8 bits, as in panel_kernels_avx2.cpp: sixteen rows of a weight are interleaved by words of
// four codes, so that a lane holds the sum of one row, and VNNI adds 64 products. Bound by the units that multiply: 16
// instructions of VNNI and 8 multiply-adds for 1024 products. A word of x serves 32 rows from a register; lost: 16
// rows, which loads bound (0.9 of the speed; Zen 5), and widening to bf16 for oneDNN (0.3 of it with 12 rows of x, 0.7
// with 128).
namespace etna::quantized::avx512 {
namespace {

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

template <typename>
struct Session {
  void begin(std::int64_t) {}
};

#include <etna/tensor/ops/quantized/panel_kernels.inc>

}  // namespace

PanelKernel panel_kernel(std::string_view format) { return find(format); }

}  // namespace etna::quantized::avx512

#endif
