#include <algorithm>

#include <etna/device/vulkan/api/workgroup_matrix.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/cut.h>
#include <etna/tensor/ops/matmul/gemm/push.h>

// Products of f16 and bf16 on matrix units, by NV_cooperative_matrix2: shaders/gemm_coopmat2.comp.
namespace etna::product {
namespace {

/// As those of lib/gemm_matrix.glsl, which they are compared with.
constexpr Tile kTiles[] = {{128, 128, 2, 340, 550, 2600}, {128, 64, 3, 200, 390, 2200}, {64, 64, 4, 140, 350, 1900}};
constexpr std::int64_t kStep = 64;
constexpr std::uint32_t kThreads = 128;

struct Variants {
  const gpu::Shader* f16;
  const gpu::Shader* bf16;
};
/// In the order of kTiles.
const Variants kShaders[] = {{&shaders::gemm_coopmat2_128x128_f16, &shaders::gemm_coopmat2_128x128_bf16},
                             {&shaders::gemm_coopmat2_128x64_f16, &shaders::gemm_coopmat2_128x64_bf16},
                             {&shaders::gemm_coopmat2_64x64_f16, &shaders::gemm_coopmat2_64x64_bf16}};

/// Whether the device multiplies matrices of all of the tiles' sizes in a workgroup.
bool multiplies(Device device, DType t) {
  const gpu::MatrixElement wanted = t == f16 ? gpu::MatrixElement::f16 : gpu::MatrixElement::bf16;
  std::span<const vulkan::WorkgroupMatrix> kinds = vulkan::workgroup_matrices(device);
  return std::any_of(kinds.begin(), kinds.end(), [&](const vulkan::WorkgroupMatrix& x) {
    const bool fits = 64 % x.m == 0 && 64 % x.n == 0 && kStep % x.k == 0;
    return fits && x.threads == kThreads && x.operands == wanted && x.sums == gpu::MatrixElement::f32;
  });
}

}  // namespace

std::span<const Tile> coopmat2_tiles() { return kTiles; }

bool launch_coopmat2(const OpCall& call, const Problem& p) {
  if ((p.dtype != f16 && p.dtype != bf16) || !multiplies(p.device(), p.dtype)) return false;
  const bool given = p.cut && p.cut->tile < std::size(kTiles);
  const std::uint32_t units = gpu::capabilities(p.device()).compute_units;
  const Cut cut = given ? *p.cut : choose_cut({p.m, p.n, p.k, p.matrices()}, units, kTiles);
  const Tile& tile = kTiles[cut.tile];
  const Variants& variants = kShaders[cut.tile];
  const gpu::Shader& shader = p.dtype == f16 ? *variants.f16 : *variants.bf16;
  if (shader.words.empty()) return false;
  const std::uint32_t first[] = {kThreads};
  launch_kernel(call, p, {shader, tile.m, tile.n, kStep, 8, first}, cut.splits);
  return true;
}

}  // namespace etna::product
