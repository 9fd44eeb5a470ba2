#include <etna/tensor/ops/matmul/gemm/internal/gemm_norm.h>

#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

namespace etna::gemm {
namespace {

constexpr std::int64_t kGemmNormRows = 8;

/// Sizes of the gemm, and the columns of a workgroup's tile.
struct Sizes {
  std::int64_t m, n, k, tile_n;
};

/// True if the fused dispatch is estimated to finish before a gemm, a barrier and a norm, by the model of tiling.cpp.
/// The time of a step of k is calculated, not measured: 60 % of the peak multiplications, or reading w from L2 at about
/// 24 bytes per clock and multiprocessor when all of them read.
bool pays(const Sizes& s, Device device, DType dtype) {
  const gpu::Capabilities& can = gpu::capabilities(device);
  std::int64_t units = std::max<std::int64_t>(32, can.compute_units);
  constexpr double start = 900, rate = 0.6 * 128, l2_bytes = 24;
  constexpr double norm_start = 4100, norm_bytes = 14,
                   memory_bytes = 13;  // a dispatch and a barrier; bytes per result; bytes per clock
  std::int64_t waves = ((s.m + kGemmNormRows - 1) / kGemmNormRows + units - 1) / units;
  double step = std::max(static_cast<double>(kGemmNormRows * s.tile_n) / rate,
                         static_cast<double>(s.n) * static_cast<double>(item_size(dtype)) / l2_bytes);
  double fused = start + static_cast<double>(waves * s.k) * step;
  std::span<const Tile> tiles = can.cooperative_matrix && dtype != f32 ? coopmat_tiles() : plain_tiles();
  Extent extent{s.m, s.n, s.k};
  Tiling tiling = choose_tiling(extent, units, tiles);
  double norm = norm_start + static_cast<double>(s.m * s.n) * norm_bytes / (memory_bytes * static_cast<double>(units));
  return fused < estimated_clocks(extent, units, tiles[tiling.tile], tiling.split_k) + norm;
}

Tensor gemm_norm_dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }
/// The dtype, or a placeholder for an absent tensor, so that absence does not create another pipeline.
DType dtype_of(const Tensor& x) { return x.defined() ? x.dtype() : f32; }

}  // namespace

bool gemm_norm_on_gpu(const OpCall& call, const Tensor& x, const Tensor& w, const GemmNorm& n, Tensor& sum, Tensor& y) {
  for (const Tensor& t : {x, w, n.bias, n.residual, n.norm_weight, n.norm_bias, y}) {
    if (t.defined() && t.dtype() == f64) return false;
  }
  Sizes s{.m = 0, .n = w.size(0), .k = w.size(1), .tile_n = 32};
  if (sum.numel() == 0 || s.k == 0 || s.n > kMaxNormColumns) return false;
  s.m = sum.numel() / s.n;
  while (s.tile_n < s.n) s.tile_n *= 2;
  std::int64_t lda = spacing(x), ldb = spacing(w);
  if (lda == 0 || ldb == 0 || !pays(s, x.device(), x.dtype())) return false;

  Tensor residual = spacing(n.residual) == 0 ? n.residual.contiguous() : n.residual;
  Tensor bias = gemm_norm_dense(n.bias), norm_weight = gemm_norm_dense(n.norm_weight),
         norm_bias = gemm_norm_dense(n.norm_bias);
  std::int64_t ld_residual = spacing(residual);
  std::int64_t width =
      std::min({vector_width(sum.address(), sum.dtype(), {s.n}), vector_width(y.address(), y.dtype(), {s.n}),
                vector_width(residual.address(), residual.dtype(), {ld_residual})});
  for (const Tensor& row : {bias, norm_weight, norm_bias}) {
    if (row.defined()) width = std::min(width, vector_width(row.address(), row.dtype(), {}));
  }
  const std::int64_t step = 256 / (s.tile_n / 4) * 8, widest = x.dtype() == f32 ? 4 : 8;
  const std::uint32_t given =
      (bias.defined() ? 1u : 0u) | (norm_weight.defined() ? 2u : 0u) | (norm_bias.defined() ? 4u : 0u);
  gpu::Kernel(shaders::gemm_norm, call)
      .spec(32, 0, s.tile_n, x.dtype())
      .spec(vector_width(x.address(), x.dtype(), {lda}), vector_width(w.address(), w.dtype(), {ldb}, widest))
      .spec(s.k % step == 0, given, width)
      .spec(dtype_of(bias), sum.dtype(), dtype_of(norm_weight), dtype_of(norm_bias), y.dtype())
      .read(x)
      .read(w)
      .read(bias)
      .read(residual)
      .write(sum)
      .read(norm_weight)
      .read(norm_bias)
      .write(y)
      .u32(s.m, s.n, s.k, lda, ldb, ld_residual)
      .f32(static_cast<float>(n.eps))
      .dispatch(gpu::grid(s.m, kGemmNormRows));
  return true;
}

}  // namespace etna::gemm
