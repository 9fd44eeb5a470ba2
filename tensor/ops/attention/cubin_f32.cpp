#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/cubin_launch.h>
#include <etna/tensor/ops/attention/internal/matrix.h>

namespace etna::attention {
namespace {

/// Below this number of multiplications of a gemm, plain kernels are as fast, with fewer dispatches.
constexpr double kFewest = 5e8;

constexpr std::int64_t kTileQueries = 128, kTileKeys = 64, kParts = 3;
constexpr std::uint32_t kThreads = 384, kUnitBytes = 3 * 64 * 128;  ///< parts of 64 rows and columns

/// Kernels for heads up to a size, without and with a triangle, as in shaders/sm90/attention32.cuh.
struct F32Kernels {
  const gpu::CubinKernel* forward[2];
  std::uint32_t forward_bytes;  ///< barriers included
};
const F32Kernels& kernels_of(std::int64_t size) {
  using namespace cubins;
  static const F32Kernels to_64{{&cubin_attention_f32_64, &cubin_attention_f32_64_causal}, 8 * (kUnitBytes + 16)},
      to_128{{&cubin_attention_f32_128, &cubin_attention_f32_128_causal}, 9 * kUnitBytes + 5 * 16};
  return size <= 64 ? to_64 : to_128;
}

bool takes(const OpCall& call, const Inputs& in, std::initializer_list<const Tensor*> operands) {
  const double scale = call.as<AttentionAttrs>().scale;
  const double multiplications = static_cast<double>(in.batch * in.heads) * static_cast<double>(in.queries) *
                                 static_cast<double>(in.keys * in.size);
  return has_f32_cubin(in.q.device(), in.size) && !in.mask.defined() && multiplications >= kFewest && scale > 0 &&
         std::isfinite(scale) && in.batch * in.heads * std::max(in.queries, in.keys) < std::int64_t{1} << 30 &&
         std::all_of(operands.begin(), operands.end(), [](const Tensor* x) { return storable(*x); });
}

/// Room for the parts of heads [B, H, T, D], which one map of the copy engine reaches.
Tensor room_for_parts(const Tensor& x) {
  return empty({kParts * x.size(0), x.size(1), x.size(2), ceil_div(x.size(3), std::int64_t{8}) * 8}, {bf16, x.device()})
      .slice(3, 0, x.size(3));
}

void launch(const OpCall& call, Device device, const gpu::CubinKernel& kernel, const CubinParameters& p,
            std::int64_t blocks, std::uint32_t threads, std::uint32_t shared_bytes) {
  gpu::enqueue(device, {.kernel = kernel,
                        .op = call.op.name,
                        .arguments = p,
                        .groups = {gpu::u32(blocks), 1, 1},
                        .threads = threads,
                        .shared_bytes = shared_bytes});
}

/// Splits two tensors of one shape.
void launch_parts(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& a_parts, const Tensor& b_parts,
                  const Tensor& unsplit) {
  const std::int64_t rows = a.size(2), all = a.size(0) * a.size(1) * rows;
  CubinParameters p;  // hopper::AttentionPartsParameters
  for (const Tensor* x : {&a, &b}) p.read(gpu::pointer(*x));
  for (const Tensor* x : {&a_parts, &b_parts}) p.write(gpu::pointer(*x));
  p.read_write(gpu::pointer(unsplit));
  for (int i = 0; i < 4; ++i) p.read(Pointer());
  p.u32s(a.size(1), rows, a.size(3), a_parts.strides()[2], rows, all, 0);
  p.strides(a);
  p.strides(b);
  p.u32s(0, 0, 0);
  launch(call, a.device(), cubins::cubin_attention_f32_parts, p,
         std::min(ceil_div(2 * all, std::int64_t{32}), 16 * units_of(a.device())), 256, 0);
}

}  // namespace

bool has_f32_cubin(Device device, std::int64_t size) {
  if (wanted_variant().value_or(KernelVariant::cubin) != KernelVariant::cubin) return false;
  return size > 0 && size <= 128 && size % 4 == 0 && gpu::capabilities(device).cubin == 90 &&
         !kernels_of(size).forward[0]->cubin.empty();
}

Tensor launch_f32_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp) {
  if (!takes(call, in, {&in.q, &in.k, &in.v, &y})) return {};
  const auto& attributes = call.as<AttentionAttrs>();
  const Device device = y.device();
  const Tensor k = room_for_parts(in.k), v = room_for_parts(in.v), unsplit = zeros({2}, {i32, device});
  const auto k_map = map_of(k, kTileKeys), v_map = map_of(v, kTileKeys);
  if (!k_map || !v_map) return {};
  launch_parts(call, in.k, in.v, k, v, unsplit);

  const F32Kernels& kernels = kernels_of(in.size);
  const std::int64_t tiles = ceil_div(in.queries, kTileQueries);
  CubinParameters p;  // hopper::Attention32Parameters
  for (const auto& map : {k_map, v_map}) p.append(*map);
  p.read(gpu::pointer(in.q));
  p.write(gpu::pointer(y));
  p.write(gpu::pointer(logsumexp));
  p.read_write(gpu::pointer(unsplit));
  p.u32s(in.batch, in.heads, in.heads_per_group(), in.queries, in.keys, in.size);
  p.strides(in.q);
  p.strides(y);
  p.number(static_cast<float>(attributes.scale) * kLog2E);
  p.u32s(tiles);
  launch(call, device, *kernels.forward[attributes.causal], p, std::min(tiles * in.heads * in.batch, units_of(device)),
         kThreads, kernels.forward_bytes);
  return unsplit;
}

}  // namespace etna::attention
