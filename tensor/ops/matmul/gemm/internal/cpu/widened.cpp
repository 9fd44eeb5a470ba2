#include <algorithm>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

namespace etna::cpu {
namespace {

constexpr std::int64_t kDepth = 512;

/// Converts rows [0, rows) and columns [0, columns) of x to f32, one row after another.
void widen(const Bf16* x, std::int64_t leading, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t i = 0; i < rows; ++i) widen_bf16(x + i * leading, to + i * columns, columns);
}

}  // namespace

void multiply_widened(OneThread<float> multiply, const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta,
                      float* c) {
  const std::int64_t deepest = std::min(kDepth, g.k);
  Scratch<float> wide_a(static_cast<std::size_t>(g.m * deepest)), wide_b(static_cast<std::size_t>(g.n * deepest));
  Gemm chunk = g;
  for (std::int64_t k = 0; k < g.k; k += kDepth) {
    chunk.k = std::min(kDepth, g.k - k);
    chunk.lda = g.transpose_a ? g.m : chunk.k;
    chunk.ldb = g.transpose_b ? chunk.k : g.n;
    widen(g.transpose_a ? a + k * g.lda : a + k, g.lda, g.transpose_a ? chunk.k : g.m, chunk.lda, wide_a.data());
    widen(g.transpose_b ? b + k : b + k * g.ldb, g.ldb, g.transpose_b ? g.n : chunk.k, chunk.ldb, wide_b.data());
    multiply(chunk, alpha, wide_a.data(), wide_b.data(), k == 0 ? beta : 1.0f, c);
  }
}

}  // namespace etna::cpu
