#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

// Gemms of f16 and bf16 on matrix units with KHR_cooperative_matrix: shaders/lib/gemm_matrix.glsl.
namespace etna::gemm {
namespace {

/// Rates on an H200, whose peak is 1024 multiplications per clock and multiprocessor.
constexpr Tile kTiles[] = {{128, 128, 2, 380, 610, 2600}, {128, 64, 3, 220, 430, 2200}, {64, 64, 4, 150, 390, 1900}};
constexpr std::int64_t kStep = 64;

struct Variants {
  const gpu::Shader* f16;
  const gpu::Shader* bf16;
};
/// In the order of kTiles.
const Variants kCoopmatShaders[] = {{&shaders::gemm_coopmat_128x128_f16, &shaders::gemm_coopmat_128x128_bf16},
                                    {&shaders::gemm_coopmat_128x64_f16, &shaders::gemm_coopmat_128x64_bf16},
                                    {&shaders::gemm_coopmat_64x64_f16, &shaders::gemm_coopmat_64x64_bf16}};

/// Upper bound of the shared memory for the operands, in bytes; rows along k have the larger padding.
std::int64_t shared_bytes(const Tile& tile) { return (tile.m + tile.n) * (kStep + 8) * 2; }

}  // namespace

/// The largest matrix shape whose sides divide a subgroup's share of the smallest tile and are multiples of eight,
/// since shared memory is read that way; sides of 32 only if there is no smaller shape.
const gpu::MatrixShape* coopmat_shape(const gpu::Capabilities& can, DType t) {
  gpu::MatrixElement wanted = t == f16 ? gpu::MatrixElement::f16 : gpu::MatrixElement::bf16;
  const gpu::MatrixShape* best = nullptr;
  for (std::uint32_t most : {16u, 32u}) {
    for (const gpu::MatrixShape& s : can.matrix_shapes) {
      if (s.operands != wanted || s.sums != gpu::MatrixElement::f32) continue;
      bool fits = true;
      for (std::uint32_t side : {s.m, s.n, s.k}) fits = fits && side % 8 == 0 && 32 % side == 0 && side <= most;
      if (fits && (best == nullptr || s.m * s.n * s.k > best->m * best->n * best->k)) best = &s;
    }
    if (best != nullptr) break;
  }
  return best;
}

std::span<const Tile> coopmat_tiles() { return kTiles; }

bool launch_coopmat(const OpCall& call, const GemmParams& p) {
  if (p.dtype != f16 && p.dtype != bf16) return false;
  const gpu::Capabilities& can = gpu::capabilities(p.device);
  const gpu::MatrixShape* shape = coopmat_shape(can, p.dtype);
  std::uint32_t threads = 4 * can.subgroup_size;
  if (!can.cooperative_matrix || shape == nullptr || threads > can.max_workgroup_size) return false;
  std::size_t fitting = 0;
  while (fitting < std::size(kTiles) && shared_bytes(kTiles[fitting]) > can.shared_memory_bytes) ++fitting;
  std::span<const Tile> tiles = coopmat_tiles().subspan(fitting);
  if (tiles.empty()) return false;
  Tiling tiling;
  if (p.tiling && p.tiling->tile >= fitting && p.tiling->tile < std::size(kTiles)) {
    tiling = *p.tiling;
  } else {
    tiling = choose_tiling({p.m, p.n, p.k, p.matrices()}, can.compute_units, tiles);
    tiling.tile += fitting;
  }
  const Tile& tile = kTiles[tiling.tile];
  const Variants& variants = kCoopmatShaders[tiling.tile];
  const gpu::Shader& shader = p.dtype == f16 ? *variants.f16 : *variants.bf16;
  if (shader.words.empty()) return false;
  const std::uint32_t first[] = {threads}, last[] = {shape->m, shape->n, shape->k};
  launch_tiled(call, p, {shader, tile.m, tile.n, kStep, 8, first, last}, tiling.split_k);
  return true;
}

}  // namespace etna::gemm
