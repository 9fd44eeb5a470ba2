#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>

#include <algorithm>

namespace etna::gemm {
namespace {

/// Sums of f16 and bf16 stay f32 until a leaf rounds them.
DType sum_dtype(DType t) { return item_size(t) == 2 ? f32 : t; }

}  // namespace

Tensor weight_gradient(const Tensor& g, const Tensor& x) {
  std::int64_t in = x.size(-1), out = g.size(-1), rows = out == 0 ? 0 : g.numel() / out;
  DType t = sum_dtype(x.dtype());
  if (rows == 0 || in == 0) return zeros({out, in}, {t, g.device()});
  return matmul(g.reshape({rows, out}).t(), x.reshape({rows, in}), t);
}

Tensor bias_gradient(const Tensor& g) {
  Dims rows;
  for (int d = 0; d < g.dim() - 1; ++d) rows.push_back(d);
  return rows.empty() ? g : sum(g, rows, false, sum_dtype(g.dtype()));
}

}  // namespace etna::gemm
