#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/matmul/gemm/cut.h>
#include <etna/tensor/ops/matmul/gemm/push.h>

// Products on a device's plain units: shaders/gemm.comp. Takes every problem of floating dtypes but f64.
namespace etna::product {
namespace {

/// In the order of plain_tiles().
const gpu::Shader* const kShaders[] = {&shaders::gemm_128, &shaders::gemm_64, &shaders::gemm_32};
constexpr std::int64_t kSteps[] = {8, 16, 32};

}  // namespace

bool launch_plain(const OpCall& call, const Problem& p) {
  if (!is_floating(p.dtype)) return false;
  Cut cut = p.cut && p.cut->tile < plain_tiles().size()
                ? *p.cut
                : choose_cut({p.m, p.n, p.k, p.matrices()},
                             std::max<std::int64_t>(32, gpu::capabilities(p.device()).compute_units), plain_tiles());
  const Tile& tile = plain_tiles()[cut.tile];
  const std::uint32_t first[] = {vulkan::word(p.dtype)};
  launch_kernel(call, p, {*kShaders[cut.tile], tile.m, tile.n, kSteps[cut.tile], 4, first}, cut.splits);
  return true;
}

}  // namespace etna::product
