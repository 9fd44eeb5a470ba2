#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>

// Few rows of x on matrix units; weights are decoded on the fly.
namespace etna::quantized {
namespace {

constexpr std::int64_t kStep = 128, kTileM = 32, kTileN = 64;
constexpr std::uint32_t kGpuBlocksThreads = 128;

}  // namespace

bool has_block_gemm(const Tensor& x, const BlockMatrix& w) {
  const gpu::Capabilities& can = gpu::capabilities(x.device());
  if (x.dtype() != bf16 || x.size(0) > kTileM || x.size(1) % kStep != 0 || w.rows == 0) return false;
  if (gemm::requested_variant() == gemm::KernelVariant::plain) return false;
  const gpu::MatrixShape* shape = gemm::coopmat_shape(can, bf16);
  const std::int64_t shared = (kTileM + kTileN) * (kStep + 8) * 2 + 256;
  // A subgroup computes half of a tile in both dimensions.
  return can.cooperative_matrix && shape != nullptr && shape->m <= kTileM / 2 && shape->n <= kTileN / 2 &&
         4 * can.subgroup_size == kGpuBlocksThreads && kGpuBlocksThreads <= can.max_workgroup_size &&
         shared <= can.shared_memory_bytes && !shaders::gemm_blocks_32_bf16.words.empty();
}

void gemm_by_blocks(const OpCall& call, const Tensor& x, const BlockMatrix& w, const gemm::Epilogue& e,
                    const Tensor& y) {
  const gpu::Capabilities& can = gpu::capabilities(y.device());
  const std::int64_t k = x.size(1);
  gemm::GemmParams p;
  p.device = y.device();
  p.m = x.size(0);
  p.n = w.rows;
  p.k = k;
  p.dtype = x.dtype();
  p.a = {gpu::pointer(x), false, k, {}};
  p.b = {w.at, true, w.row_bytes, {}};
  p.y = {gpu::pointer(y), y.dtype(), y.strides()[0]};
  if (e.residual.defined()) p.residual = {gpu::pointer(e.residual), e.residual.dtype(), e.residual.strides()[0]};
  if (e.bias.defined()) {
    p.bias = gpu::pointer(e.bias);
    p.bias_dtype = e.bias.dtype();
  }
  if (e.scale_by.defined()) p.scale_by = gpu::pointer(e.scale_by);
  p.sums = e.sums;
  // Three workgroups per multiprocessor, which hide each other's load latency, with two or more steps of k each.
  const std::int64_t tiles = (w.rows + kTileN - 1) / kTileN;
  const std::int64_t most = std::max<std::int64_t>(1, k / kStep / 2);
  const std::int64_t split = std::clamp<std::int64_t>(3 * can.compute_units / tiles, 1, most);
  const gpu::MatrixShape* shape = gemm::coopmat_shape(can, bf16);
  const std::uint32_t first[] = {kGpuBlocksThreads}, last[] = {shape->m, shape->n, shape->k, w.format, w.aligned};
  gemm::launch_tiled(call, p,
                     {.shader = shaders::gemm_blocks_32_bf16,
                      .tile_m = kTileM,
                      .tile_n = kTileN,
                      .step = kStep,
                      .widest = 8,
                      .first = first,
                      .last = last,
                      .points = w.points(y.device())},
                     split);
}

}  // namespace etna::quantized
