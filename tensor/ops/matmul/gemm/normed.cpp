#include <etna/tensor/ops/matmul/gemm/normed.h>

#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/cut.h>
#include <etna/tensor/ops/matmul/gemm/finish.h>
#include <etna/tensor/ops/matmul/gemm/product.h>

namespace etna::product {
namespace {

/// As shaders/gemm_norm.comp has it.
struct Push {
  vulkan::Word64 a, b, bias, residual, sum, weight, shift, y;
  std::uint32_t m, n, k, lda, ldb, ld_residual;
  float eps;
};
static_assert(sizeof(Push) == 92);

constexpr std::int64_t kRows = 8;

/// Sizes of the product, and what a workgroup's tile has columns.
struct Sizes {
  std::int64_t m, n, k, tile_n;
};

/// By the model of cut.cpp: whether one dispatch should be done before a product, a barrier and a norm are. What a step of k takes is on
/// paper: 60 % of the multiplications there could be, or reading w, of which all multiprocessors together get some 24 bytes a clock
/// each from L2.
bool pays(const Sizes& s, Device device, DType dtype) {
  const gpu::Capabilities& can = gpu::capabilities(device);
  std::int64_t units = std::max<std::int64_t>(32, can.compute_units);
  constexpr double start = 900, rate = 0.6 * 128, l2_bytes = 24;
  constexpr double norm_start = 4100, norm_bytes = 14,
                   memory_bytes = 13;  // a dispatch and a barrier; a result; a clock
  std::int64_t waves = ((s.m + kRows - 1) / kRows + units - 1) / units;
  double step = std::max(static_cast<double>(kRows * s.tile_n) / rate,
                         static_cast<double>(s.n) * static_cast<double>(item_size(dtype)) / l2_bytes);
  double fused = start + static_cast<double>(waves * s.k) * step;
  std::span<const Tile> tiles = can.cooperative_matrix && dtype != f32 ? coopmat_tiles() : plain_tiles();
  Extent extent{s.m, s.n, s.k};
  Cut cut = choose_cut(extent, units, tiles);
  double norm = norm_start + static_cast<double>(s.m * s.n) * norm_bytes / (memory_bytes * static_cast<double>(units));
  return fused < clocks(extent, units, tiles[cut.tile], cut.splits) + norm;
}

Tensor dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }
/// What stands for the dtype of a tensor that was left out, so that it makes no pipeline of its own.
std::uint32_t dtype_of(const Tensor& x) { return vulkan::word(x.defined() ? x.dtype() : f32); }

}  // namespace

bool gpu_normed(const OpCall& call, const Tensor& x, const Tensor& w, const Normed& n, Tensor& sum, Tensor& y) {
  for (const Tensor& t : {x, w, n.bias, n.residual, n.weight, n.shift, y}) {
    if (t.defined() && t.dtype() == f64) return false;
  }
  Sizes s{.m = 0, .n = w.size(0), .k = w.size(1), .tile_n = 32};
  if (sum.numel() == 0 || s.k == 0 || s.n > kWidestNormed) return false;
  s.m = sum.numel() / s.n;
  while (s.tile_n < s.n) s.tile_n *= 2;
  std::int64_t lda = spacing(x), ldb = spacing(w);
  if (lda == 0 || ldb == 0 || !pays(s, x.device(), x.dtype())) return false;

  Tensor residual = spacing(n.residual) == 0 ? n.residual.contiguous() : n.residual;
  Tensor bias = dense(n.bias), weight = dense(n.weight), shift = dense(n.shift);
  std::int64_t ld_residual = spacing(residual);
  std::int64_t wide = std::min({width(sum.address(), sum.dtype(), {s.n}), width(y.address(), y.dtype(), {s.n}),
                                width(residual.address(), residual.dtype(), {ld_residual})});
  for (const Tensor& row : {bias, weight, shift}) {
    if (row.defined()) wide = std::min(wide, width(row.address(), row.dtype(), {}));
  }
  Push push{x.address(),
            w.address(),
            vulkan::address_or_zero(bias),
            residual.address(),
            sum.address(),
            vulkan::address_or_zero(weight),
            vulkan::address_or_zero(shift),
            y.address(),
            vulkan::word(s.m),
            vulkan::word(s.n),
            vulkan::word(s.k),
            vulkan::word(lda),
            vulkan::word(ldb),
            vulkan::word(ld_residual),
            static_cast<float>(n.eps)};
  std::int64_t step = 256 / (s.tile_n / 4) * 8, widest = x.dtype() == f32 ? 4 : 8;
  std::uint32_t given = (bias.defined() ? 1u : 0u) | (weight.defined() ? 2u : 0u) | (shift.defined() ? 4u : 0u);
  vulkan::launch(
      shaders::gemm_norm, call,
      {32, 0, vulkan::word(s.tile_n), vulkan::word(x.dtype()), vulkan::word(width(x.address(), x.dtype(), {lda})),
       vulkan::word(width(w.address(), w.dtype(), {ldb}, widest)), vulkan::word(s.k % step == 0), given,
       vulkan::word(wide), dtype_of(bias), vulkan::word(sum.dtype()), dtype_of(weight), dtype_of(shift),
       vulkan::word(y.dtype())},
      push, vulkan::grid((s.m + kRows - 1) / kRows), {&x, &w, &bias, &residual, &weight, &shift}, {&sum, &y});
  return true;
}

}  // namespace etna::product
