#include <etna/tensor/ops/matmul/gemm/internal/cpu/bf16_panels.h>

#include <algorithm>

#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/weight_panels.h>

// One instruction multiplies and adds two rows of a panel, which halves the arithmetic; with few rows that is the
// bound. Not all versions of Highway that this builds with can dispatch on the instruction, hence intrinsics.
#if defined(__x86_64__) && defined(__linux__)
#define ETNA_BF16_PAIRS
#include <immintrin.h>
#if !defined(__clang__)
// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#endif

namespace etna::cpu {

#ifdef ETNA_BF16_PAIRS
namespace {

#define ETNA_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

/// Sixteen columns of two rows; the first row in the low 16 bits.
ETNA_TARGET inline __m512i column_pairs(const std::uint16_t* first, const std::uint16_t* second) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
  if (second == nullptr) return low;
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// @param a pairs of bf16, lda u32 from row to row @param k rows of the panel, with row stride `width`
template <int kRows, int kVectors>
ETNA_TARGET void block(const std::uint32_t* a, std::int64_t lda, std::int64_t k, const std::uint16_t* b,
                       std::int64_t width, float* out, std::int64_t ldo) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t i = 0; i < k; i += 2, b += 2 * width) {
    __m512i pairs[kVectors];
    for (int v = 0; v < kVectors; ++v) pairs[v] = column_pairs(b + 16 * v, i + 1 < k ? b + width + 16 * v : nullptr);
    for (int r = 0; r < kRows; ++r) {
      const __m512i value = _mm512_set1_epi32(static_cast<int>(a[r * lda + i / 2]));
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)value, (__m512bh)pairs[v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + r * ldo + 16 * v, sums[r][v]);
  }
}

template <int kVectors>
ETNA_TARGET void blocks(const std::uint32_t* a, std::int64_t lda, std::int64_t rows, std::int64_t k,
                        const std::uint16_t* b, std::int64_t width, float* out, std::int64_t ldo) {
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) block<8, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
  for (; r + 4 <= rows; r += 4) block<4, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
  for (; r < rows; ++r) block<1, kVectors>(a + r * lda, lda, k, b, width, out + r * ldo, ldo);
}

}  // namespace

bool multiplies_bf16_pairs() {
  static const bool present = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512dq");
  return present;
}

void multiply_bf16_pairs(const std::uint32_t* pairs, std::int64_t rows, std::int64_t k, const std::uint16_t* panel,
                         std::int64_t columns, float* out, std::int64_t ldo) {
  const std::int64_t pairs_per_row = (k + 1) / 2;
  for (std::int64_t c = 0; c < columns; c += kPanelTile, panel += kPanelTile * k) {
    const std::int64_t width = std::min(kPanelTile, columns - c);
    if (width == kPanelTile)
      blocks<2>(pairs, pairs_per_row, rows, k, panel, width, out + c, ldo);
    else
      blocks<1>(pairs, pairs_per_row, rows, k, panel, width, out + c, ldo);
  }
}
#else
bool multiplies_bf16_pairs() { return false; }
void multiply_bf16_pairs(const std::uint32_t*, std::int64_t, std::int64_t, const std::uint16_t*, std::int64_t, float*,
                         std::int64_t) {}
#endif

void round_to_pairs(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, std::uint32_t* pairs) {
  const std::int64_t pairs_per_row = (k + 1) / 2;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (k % 2 != 0) pairs[r * pairs_per_row + pairs_per_row - 1] = 0;
    narrow_bf16(a + r * lda, reinterpret_cast<std::uint16_t*>(pairs + r * pairs_per_row), k);
  }
}

}  // namespace etna::cpu
