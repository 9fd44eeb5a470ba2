#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

// Gemms without matrix units: shaders/matmul/gemm.comp. Supports every floating dtype except f64.
namespace etna::gemm {
namespace {

/// In the order of plain_tiles().
const gpu::Shader* const kPlainShaders[] = {&shaders::gemm_128, &shaders::gemm_64, &shaders::gemm_32};
constexpr std::int64_t kSteps[] = {8, 16, 32};

}  // namespace

bool launch_plain(const OpCall& call, const GemmParams& p) {
  if (!is_floating(p.dtype)) return false;
  Tiling tiling =
      p.tiling && p.tiling->tile < plain_tiles().size()
          ? *p.tiling
          : choose_tiling({p.m, p.n, p.k, p.matrices()},
                          std::max<std::int64_t>(32, gpu::capabilities(p.device).compute_units), plain_tiles());
  const Tile& tile = plain_tiles()[tiling.tile];
  const std::uint32_t first[] = {gpu::u32(p.dtype)};
  launch_tiled(call, p, {*kPlainShaders[tiling.tile], tile.m, tile.n, kSteps[tiling.tile], 4, first}, tiling.split_k);
  return true;
}

}  // namespace etna::gemm
