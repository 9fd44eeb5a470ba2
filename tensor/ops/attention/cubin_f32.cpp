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
/// ETNA_ATTENTION=cubin takes smaller ones, too.
constexpr double kFewest = 5e8;

constexpr std::int64_t kBlock = 64, kParts = 3;  ///< rows of tiles, of which forward has two for queries
constexpr std::uint32_t kThreads = 384, kBoxBytes = 64 * 128, kUnitBytes = 3 * kBoxBytes;  ///< a part, all of 64 x 64

/// Kernels for heads up to a size, without and with a triangle, as in shaders/sm90/attention32.cuh.
struct F32Kernels {
  std::int64_t columns;  ///< of 64
  const gpu::CubinKernel *forward[2], *backward[2];
  std::uint32_t forward_bytes, backward_bytes;  ///< barriers included
};
const F32Kernels& kernels_of(std::int64_t size) {
  using namespace cubins;
  static const F32Kernels to_64{1,
                                {&cubin_attention_f32_64, &cubin_attention_f32_64_causal},
                                {&cubin_attention_backward_f32_64, &cubin_attention_backward_f32_64_causal},
                                8 * (kUnitBytes + 16),
                                7 * kUnitBytes + 6 * kBoxBytes + 2 * 64 * 8 + 22 * 8 + 8},
      to_128{2,
             {&cubin_attention_f32_128, &cubin_attention_f32_128_causal},
             {&cubin_attention_backward_f32_128, &cubin_attention_backward_f32_128_causal},
             6 * (kUnitBytes + 16) + 8 * kBoxBytes,
             6 * kUnitBytes + 10 * kBoxBytes + 64 * 8 + 14 * 8 + 8};
  return size <= 64 ? to_64 : to_128;
}

bool takes_f32(const OpCall& call, const Inputs& in, std::initializer_list<const Tensor*> operands) {
  const auto& attributes = call.as<AttentionAttrs>();
  const double scale = attributes.scale;
  const double multiplications = static_cast<double>(in.batch * in.heads) * static_cast<double>(in.queries) *
                                 static_cast<double>(in.keys * in.size);
  return has_f32_cubin(in.q.device(), in.size) && !in.mask.defined() && !in.documents.defined() &&
         attributes.window == 0 && attributes.softcap == 0 && in.keys > 0 &&
         (wanted_variant() == KernelVariant::cubin || multiplications >= kFewest) && scale > 0 &&
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

/// What backward has its rows know.
struct RowStatistics {
  const Tensor &y, &logsumexp, &statistics, &turns;
  std::int64_t rows_a_head;
};
/// Splits two tensors of one shape.
void launch_parts(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& a_parts, const Tensor& b_parts,
                  const Tensor& unsplit, const RowStatistics* of = nullptr) {
  const std::int64_t rows = a.size(2), rows_a_head = of != nullptr ? of->rows_a_head : rows,
                     all = a.size(0) * a.size(1) * rows_a_head;
  CubinParameters p;  // hopper::AttentionPartsParameters
  for (const Tensor* x : {&a, &b}) p.read(gpu::pointer(*x));
  for (const Tensor* x : {&a_parts, &b_parts}) p.write(gpu::pointer(*x));
  p.read_write(gpu::pointer(unsplit));
  p.read(of != nullptr ? gpu::pointer(of->y) : Pointer());
  p.read(of != nullptr ? gpu::pointer(of->logsumexp) : Pointer());
  p.write(of != nullptr ? gpu::pointer(of->statistics) : Pointer());
  p.write(of != nullptr ? gpu::pointer(of->turns) : Pointer());
  p.u32s(a.size(1), rows, a.size(3), a_parts.strides()[2], rows_a_head, all, of != nullptr ? of->turns.numel() : 0);
  p.strides(a);
  p.strides(b);
  p.strides(of != nullptr ? of->y : a);
  launch(call, a.device(), cubins::cubin_attention_parts_f32, p,
         std::min(ceil_div(2 * all, std::int64_t{32}), 16 * units_of(a.device())), 256, 0);
}

}  // namespace

bool has_f32_cubin(Device device, std::int64_t size) {
  if (wanted_variant().value_or(KernelVariant::cubin) != KernelVariant::cubin) return false;
  return size > 0 && size <= 128 && size % 4 == 0 && gpu::capabilities(device).cubin == 90 &&
         !kernels_of(size).forward[0]->cubin.empty();
}

Tensor launch_f32_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp) {
  if (!takes_f32(call, in, {&in.q, &in.k, &in.v, &y})) return {};
  const auto& attributes = call.as<AttentionAttrs>();
  const Device device = y.device();
  const Tensor k = room_for_parts(in.k), v = room_for_parts(in.v), unsplit = zeros({2}, {i32, device});
  const auto k_map = map_of(k, kBlock), v_map = map_of(v, kBlock);
  if (!k_map || !v_map) return {};
  launch_parts(call, in.k, in.v, k, v, unsplit);

  const F32Kernels& kernels = kernels_of(in.size);
  const std::int64_t tiles = ceil_div(in.queries, 2 * kBlock);
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

Tensor launch_f32_cubin_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq,
                                  const Tensor& dk, const Tensor& dv) {
  if (!takes_f32(call, in, {&in.q, &in.k, &in.v, &kept.y, &kept.dy, &dq, &dk, &dv})) return {};
  if (in.k.strides() != in.v.strides() || dk.strides() != dv.strides()) return {};
  const auto& attributes = call.as<AttentionAttrs>();
  const auto scale = static_cast<float>(attributes.scale);
  const Device device = dq.device();
  const F32Kernels& kernels = kernels_of(in.size);
  const std::int64_t heads = in.batch * in.heads, tiles = ceil_div(in.queries, kBlock),
                     key_tiles = ceil_div(in.keys, kBlock), blocks_a_head = tiles * kernels.columns;
  const Tensor q = room_for_parts(in.q), dy = room_for_parts(kept.dy), unsplit = zeros({2}, {i32, device});
  const Tensor rows = empty({heads * tiles * kBlock, 2}, {f32, device}),
               turns = empty({heads * tiles + 1}, {i32, device}),
               sums = empty({heads * blocks_a_head * kBlock * kBlock}, {f32, device});
  const auto q_map = map_of(q, kBlock), dy_map = map_of(dy, kBlock);
  if (!q_map || !dy_map) return {};
  const RowStatistics statistics{kept.y, kept.logsumexp, rows, turns, tiles * kBlock};
  launch_parts(call, in.q, kept.dy, q, dy, unsplit, &statistics);

  CubinParameters p;  // hopper::AttentionGradient32Parameters
  for (const auto& map : {q_map, dy_map}) p.append(*map);
  for (const Tensor* x : {&in.k, &in.v, &rows}) p.read(gpu::pointer(*x));
  p.write(gpu::pointer(sums));
  p.read_write(gpu::pointer(turns));
  for (const Tensor* x : {&dk, &dv}) p.write(gpu::pointer(*x));
  p.read_write(gpu::pointer(unsplit));
  p.u32s(in.batch, in.heads, in.heads_per_group(), in.queries, in.keys, in.size);
  p.strides(in.k);
  p.strides(dk);
  p.number(scale);
  p.number(scale * kLog2E);
  p.u32s(tiles, key_tiles);
  launch(call, device, *kernels.backward[attributes.causal], p,
         std::min(key_tiles * in.groups * in.batch, units_of(device)), kThreads, kernels.backward_bytes);

  CubinParameters behind;  // hopper::AttentionSum32Parameters
  behind.read(gpu::pointer(sums));
  behind.write(gpu::pointer(dq));
  behind.u32s(in.heads, in.queries, in.size, blocks_a_head, kernels.columns);
  behind.strides(dq);
  behind.number(scale);
  launch(call, device, cubins::cubin_attention_sums_f32, behind, heads * blocks_a_head, 128, 0);
  return unsplit;
}

}  // namespace etna::attention
