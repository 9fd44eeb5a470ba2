#include <etna/tensor/ops/matmul/gemm/internal/expert_gemm.h>

#include <algorithm>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

namespace etna::gemm {
namespace {

constexpr std::int64_t kMatrixUnitTile = 64, kMatrixUnitStep = 64;

struct ExpertShaders {
  const gpu::Shader &tiles, &sums;
};

ExpertShaders matrix_unit_shaders(DType dtype) {
  if (dtype == f16) return {shaders::gemm_coopmat_experts_f16, shaders::gemm_coopmat_expert_rows_f16};
  return {shaders::gemm_coopmat_experts_bf16, shaders::gemm_coopmat_expert_rows_bf16};
}

bool on_matrix_units(Device device, DType dtype) {
  if (dtype == f32 || requested_variant() == KernelVariant::plain) return false;
  const gpu::Capabilities& can = gpu::capabilities(device);
  const std::int64_t shared = 2 * kMatrixUnitTile * (kMatrixUnitStep + 8) * 2;
  return can.cooperative_matrix && coopmat_shape(can, dtype) != nullptr &&
         4 * can.subgroup_size <= can.max_workgroup_size && shared <= can.shared_memory_bytes &&
         !matrix_unit_shaders(dtype).tiles.words.empty();
}

void launch_experts(const OpCall& call, const GemmParams& p, std::int64_t tile, Pointer experts, bool sums) {
  const bool large = tile == kMatrixUnitTile;
  const auto launch = [&](const ExpertShaders& shaders, std::int64_t step, std::int64_t widest,
                          std::span<const std::uint32_t> first, std::span<const std::uint32_t> last) {
    // Workgroups for twice the multiprocessors; each adds up some hundred steps.
    const std::int64_t tiles = ceil_div(p.m, tile) * ceil_div(p.n, tile) * p.matrices();
    const std::int64_t wanted = 2 * std::max<std::int64_t>(32, gpu::capabilities(p.device).compute_units) / tiles;
    const std::int64_t split_k = sums ? std::clamp<std::int64_t>(wanted, 1, ceil_div(p.k, 512)) : 1;
    launch_tiled(call, p,
                 {.shader = sums ? shaders.sums : shaders.tiles,
                  .tile_m = tile,
                  .tile_n = tile,
                  .step = step,
                  .widest = widest,
                  .first = first,
                  .last = last,
                  .experts = experts,
                  .k_by_expert = sums},
                 split_k);
  };
  if (large && on_matrix_units(p.device, p.dtype)) {
    const gpu::Capabilities& can = gpu::capabilities(p.device);
    const gpu::MatrixShape* shape = coopmat_shape(can, p.dtype);
    const std::uint32_t first[] = {4 * can.subgroup_size}, last[] = {shape->m, shape->n, shape->k};
    return launch(matrix_unit_shaders(p.dtype), kMatrixUnitStep, 8, first, last);
  }
  const std::uint32_t first[] = {gpu::u32(p.dtype)};
  if (large) return launch({shaders::gemm_experts_64, shaders::gemm_expert_rows_64}, 16, 4, first, {});
  launch({shaders::gemm_experts_32, shaders::gemm_expert_rows_32}, 32, 4, first, {});
}

}  // namespace

std::int64_t expert_tile(Device device, DType dtype, std::int64_t rows, std::int64_t experts) {
  return on_matrix_units(device, dtype) || rows >= 96 * experts ? 64 : 32;
}

void launch_expert_tiles(const OpCall& call, const GemmParams& params, std::int64_t tile, Pointer tiles) {
  launch_experts(call, params, tile, tiles, false);
}

void launch_expert_sums(const OpCall& call, const GemmParams& params, std::int64_t tile, Pointer bounds) {
  launch_experts(call, params, tile, bounds, true);
}

}  // namespace etna::gemm
