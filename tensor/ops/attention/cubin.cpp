#include <etna/tensor/ops/attention/internal/cubin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <initializer_list>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/attention/internal/cubin_launch.h>
#include <etna/tensor/ops/attention/internal/cubin_mask.h>
#include <etna/tensor/ops/attention/internal/matrix.h>

namespace etna::attention {
namespace {

/// Kernels for heads up to a size, as in shaders/sm90/attention_kernels.cuh: for bf16 and f16, without and with a
/// triangle, and general ones.
struct CubinForward {
  std::int64_t size, value_size;
  const gpu::CubinKernel* kernels[2][2];
  const gpu::CubinKernel* general[2];
  const gpu::CubinKernel *paged[2], *masked[2];  ///< nullptr: the next size has some
  std::int64_t groups, keys;                     ///< warpgroups, each with 64 queries; keys of a tile
  std::uint32_t shared_bytes;
};
struct CubinBackward {
  std::int64_t size, value_size;
  const gpu::CubinKernel* kernels[2][2];
  const gpu::CubinKernel* general[2];
  const gpu::CubinKernel* masked[2];  ///< nullptr: the next size has some
  std::int64_t queries, keys, turns;  ///< of a tile; turns: how many words count them
  std::uint32_t shared_bytes;
};
constexpr std::int64_t kShortRows = 64;  ///< queries and keys that one block takes up to, of heads up to 64

/// Bytes of barriers included.
constexpr std::uint32_t forward_bytes(std::uint32_t columns, std::uint32_t value_columns, std::uint32_t groups,
                                      std::uint32_t keys, bool apart) {
  return 128 * (columns * (64 * groups + 2 * keys) + value_columns * ((apart ? 64 * groups : 0) + 2 * keys)) +
         8 * (2 * groups + 9);
}
constexpr std::uint32_t backward_bytes(std::uint32_t columns, std::uint32_t queries) {
  return 128 * columns * (2 * 128 + 4 * queries) + 2 * 128 * 2 * queries + 2 * columns * 64 * 64 * 4 + 2 * 8 * queries +
         24 * 8;
}
/// The same of kernels for heads beyond 128. @param stages of gradients of results
/// @param sum_columns of a stage of sums
constexpr std::uint32_t wide_backward_bytes(std::uint32_t columns, std::uint32_t value_columns, std::uint32_t stages,
                                            std::uint32_t sum_columns) {
  return 64 * 128 * (3 * columns + (1 + stages) * value_columns + 3) + 4 * 64 * sum_columns * 4 + 2 * 8 * 64 +
         (29 + 2 * stages) * 8;
}

enum class Of { kRows, kPaged, kMasked };

/// @param of what they read
const CubinForward* forward_kernels(std::int64_t size, std::int64_t value_size, Of of = Of::kRows) {
  using namespace cubins;
  static const std::array<CubinForward, 5> all{{
      {64,
       64,
       {{&cubin_attention_bf16_64, &cubin_attention_bf16_64_causal},
        {&cubin_attention_f16_64, &cubin_attention_f16_64_causal}},
       {&cubin_attention_general_bf16_64, &cubin_attention_general_f16_64},
       {&cubin_attention_paged_bf16_64, &cubin_attention_paged_f16_64},
       {&cubin_attention_masked_bf16_64, &cubin_attention_masked_f16_64},
       3,
       128,
       forward_bytes(1, 1, 3, 128, true)},
      {96,
       96,
       {{&cubin_attention_bf16_96, &cubin_attention_bf16_96_causal},
        {&cubin_attention_f16_96, &cubin_attention_f16_96_causal}},
       {&cubin_attention_general_bf16_96, &cubin_attention_general_f16_96},
       {&cubin_attention_paged_bf16_96, &cubin_attention_paged_f16_96},
       {nullptr, nullptr},
       2,
       128,
       forward_bytes(2, 2, 2, 128, true)},
      {128,
       128,
       {{&cubin_attention_bf16_128, &cubin_attention_bf16_128_causal},
        {&cubin_attention_f16_128, &cubin_attention_f16_128_causal}},
       {&cubin_attention_general_bf16_128, &cubin_attention_general_f16_128},
       {&cubin_attention_paged_bf16_128, &cubin_attention_paged_f16_128},
       {&cubin_attention_masked_bf16_128, &cubin_attention_masked_f16_128},
       2,
       128,
       forward_bytes(2, 2, 2, 128, true)},
      {192,
       128,
       {{&cubin_attention_bf16_192, &cubin_attention_bf16_192_causal},
        {&cubin_attention_f16_192, &cubin_attention_f16_192_causal}},
       {&cubin_attention_general_bf16_192, &cubin_attention_general_f16_192},
       {nullptr, nullptr},
       {nullptr, nullptr},
       2,
       128,
       forward_bytes(3, 2, 2, 128, false)},
      {256,
       256,
       {{&cubin_attention_bf16_256, &cubin_attention_bf16_256_causal},
        {&cubin_attention_f16_256, &cubin_attention_f16_256_causal}},
       {&cubin_attention_general_bf16_256, &cubin_attention_general_f16_256},
       {&cubin_attention_paged_bf16_256, &cubin_attention_paged_f16_256},
       {&cubin_attention_masked_bf16_256, &cubin_attention_masked_f16_256},
       2,
       64,
       forward_bytes(4, 4, 2, 64, false)},
  }};
  const auto found = std::find_if(all.begin(), all.end(), [&](const CubinForward& k) {
    const bool there = of == Of::kPaged    ? k.paged[0] != nullptr
                       : of == Of::kMasked ? k.masked[0] != nullptr
                                           : k.kernels[0][0] != nullptr;
    return there && size <= k.size && value_size <= k.value_size;
  });
  return found == all.end() || found->kernels[0][0]->cubin.empty() ? nullptr : &*found;
}

const CubinBackward* backward_kernels(std::int64_t size, std::int64_t value_size, bool masked) {
  using namespace cubins;
  static const std::array<CubinBackward, 4> all{{
      {64,
       64,
       {{&cubin_attention_backward_bf16_64, &cubin_attention_backward_bf16_64_causal},
        {&cubin_attention_backward_f16_64, &cubin_attention_backward_f16_64_causal}},
       {&cubin_attention_backward_general_bf16_64, &cubin_attention_backward_general_f16_64},
       {&cubin_attention_backward_masked_bf16_64, &cubin_attention_backward_masked_f16_64},
       128,
       128,
       1,
       backward_bytes(1, 128)},
      {128,
       128,
       {{&cubin_attention_backward_bf16_128, &cubin_attention_backward_bf16_128_causal},
        {&cubin_attention_backward_f16_128, &cubin_attention_backward_f16_128_causal}},
       {&cubin_attention_backward_general_bf16_128, &cubin_attention_backward_general_f16_128},
       {&cubin_attention_backward_masked_bf16_128, &cubin_attention_backward_masked_f16_128},
       64,
       128,
       1,
       backward_bytes(2, 64)},
      {192,
       128,
       {{&cubin_attention_backward_bf16_192, &cubin_attention_backward_bf16_192_causal},
        {&cubin_attention_backward_f16_192, &cubin_attention_backward_f16_192_causal}},
       {&cubin_attention_backward_general_bf16_192, &cubin_attention_backward_general_f16_192},
       {nullptr, nullptr},
       64,
       64,
       2,
       wide_backward_bytes(3, 2, 2, 64)},
      {256,
       256,
       {{&cubin_attention_backward_bf16_256, &cubin_attention_backward_bf16_256_causal},
        {&cubin_attention_backward_f16_256, &cubin_attention_backward_f16_256_causal}},
       {&cubin_attention_backward_general_bf16_256, &cubin_attention_backward_general_f16_256},
       {&cubin_attention_backward_masked_bf16_256, &cubin_attention_backward_masked_f16_256},
       64,
       64,
       2,
       wide_backward_bytes(4, 4, 1, 32)},
  }};
  const auto found = std::find_if(all.begin(), all.end(), [&](const CubinBackward& k) {
    return (!masked || k.masked[0] != nullptr) && size <= k.size && value_size <= k.value_size;
  });
  return found == all.end() || found->kernels[0][0]->cubin.empty() ? nullptr : &*found;
}

/// Whether general kernels are needed, which know windows, soft caps and documents.
bool is_general(const AttentionAttrs& attributes, const Inputs& in) {
  return attributes.window > 0 || attributes.softcap > 0 || in.documents.defined();
}
/// What kernels multiply products by before tanh; 0: no soft cap.
float cap_of(double scale, double softcap) {
  return softcap > 0 ? static_cast<float>(2 * scale / softcap) * kLog2E : 0;
}
/// tanh is exact to some 2e-7 of 1, so scores to as much of the cap.
bool cap_fits(double scale, double softcap) {
  return softcap == 0 || (softcap <= 1000 && std::isnormal(cap_of(scale, softcap)));
}
/// Scores that kernels see, in units of log 2: tanh under a soft cap.
float log2_scale(double scale, double softcap) { return static_cast<float>(softcap > 0 ? softcap : scale) * kLog2E; }

bool takes(const OpCall& call, const Inputs& in, std::initializer_list<const Tensor*> stored) {
  const auto& attributes = call.as<AttentionAttrs>();
  const double scale = attributes.scale;
  return has_cubin(in.q.device(), in.q.dtype(), in.size) && in.value_size % 8 == 0 && in.value_size > 0 &&
         in.value_size <= 256 && in.keys > 0 && scale > 0 && std::isfinite(scale) &&
         cap_fits(scale, attributes.softcap) &&
         std::all_of(stored.begin(), stored.end(), [](const Tensor* x) { return storable(*x); });
}

/// Heads that share their keys are rows of a tile, if tiles of 64 rows can have whole queries.
std::int64_t heads_of_pack(const PagedPrompt& prompt) {
  const std::int64_t shared = prompt.q.size(2) / prompt.keys.size(1);
  return 64 % shared == 0 ? shared : 1;
}

}  // namespace

bool has_cubin(Device device, DType t, std::int64_t size) {
  if (wanted_variant().value_or(KernelVariant::cubin) != KernelVariant::cubin) return false;
  return (t == bf16 || t == f16) && size % 8 == 0 && gpu::capabilities(device).cubin == 90 &&
         forward_kernels(size, size) != nullptr;
}

bool launch_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp) {
  if (!takes(call, in, {&y})) return false;
  const auto& attributes = call.as<AttentionAttrs>();
  const bool masked = in.mask.defined();
  const CubinForward& kernel = *forward_kernels(in.size, in.value_size, masked ? Of::kMasked : Of::kRows);
  const auto q = map_of(in.q, 64), k = map_of(in.k, kernel.keys), v = map_of(in.v, kernel.keys);
  if (!q || !k || !v) return false;
  const std::int64_t tiles = ceil_div(in.queries, 64 * kernel.groups);
  if (tiles * in.heads * in.batch >= std::int64_t{1} << 31) return false;
  const auto mask = masked ? cubin_mask(call, in, false) : CubinMask();
  if (!mask) return false;

  CubinParameters p;  // hopper::AttentionParameters
  for (const auto& map : {q, k, v}) p.append(*map);
  p.write(gpu::pointer(y));
  p.write(gpu::pointer(logsumexp));
  p.u32s(in.batch, in.heads, in.heads_per_group(), in.queries, in.keys, in.value_size);
  p.strides(y);
  p.number(log2_scale(attributes.scale, attributes.softcap));
  p.u32s(tiles, attributes.causal, attributes.window);
  p.number(cap_of(attributes.scale, attributes.softcap));
  p.read(gpu::pointer(in.documents));
  mask->append_to(p);
  const bool f16s = y.dtype() == f16;
  gpu::enqueue(y.device(), {.kernel = masked                       ? *kernel.masked[f16s]
                                      : is_general(attributes, in) ? *kernel.general[f16s]
                                                                   : *kernel.kernels[f16s][attributes.causal],
                            .op = call.op.name,
                            .arguments = p,
                            .groups = {gpu::u32(std::min(tiles * in.heads * in.batch, units_of(y.device()))), 1, 1},
                            .threads = gpu::u32(128 * (kernel.groups + 1)),
                            .shared_bytes = kernel.shared_bytes});
  return true;
}

std::optional<PagedTiles> cubin_prompt_tiles(const PagedPrompt& x) {
  const auto operands = {&x.q, &x.keys, &x.values, &x.y};
  const bool aligned =
      std::all_of(operands.begin(), operands.end(), [](const Tensor* t) { return t->address() % 16 == 0; });
  if (!has_cubin(x.q.device(), x.q.dtype(), x.q.size(3)) || x.keys.dtype() != x.q.dtype() ||
      x.y.dtype() != x.q.dtype() || x.keys.numel() == 0 || x.table.numel() == 0 || !aligned || !(x.scale > 0) ||
      !std::isfinite(x.scale) || !cap_fits(x.scale, x.softcap))
    return {};
  const CubinForward& kernel = *forward_kernels(x.q.size(3), x.q.size(3), Of::kPaged);
  const std::int64_t pack = heads_of_pack(x);
  return PagedTiles{ceil_div(x.q.size(1) * pack, 64 * kernel.groups) * (x.q.size(2) / pack) * x.q.size(0), kernel.keys};
}

void launch_cubin_prompt(const OpCall& call, const PagedPrompt& x) {
  const std::int64_t batch = x.q.size(0), steps = x.q.size(1), heads = x.q.size(2), size = x.q.size(3),
                     groups = x.keys.size(1), pack = heads_of_pack(x);
  const CubinForward& kernel = *forward_kernels(size, size, Of::kPaged);
  const auto q = gemm::tensor_map(gemm::TiledHeads{.at = gpu::pointer(x.q),
                                                   .size = size,
                                                   .rows = pack,
                                                   .heads = batch * steps,
                                                   .batch = heads / pack,
                                                   .row_stride = size,
                                                   .head_stride = heads * size,
                                                   .batch_stride = pack * size,
                                                   .box_rows = pack,
                                                   .box_heads = 64 / pack});
  const auto k = map_of(x.keys, x.keys.size(2)), v = map_of(x.values, x.values.size(2));
  const std::int64_t tiles = ceil_div(steps * pack, 64 * kernel.groups), all = tiles * heads / pack * batch * x.chunks;
  CubinParameters p;  // hopper::PagedAttentionParameters
  for (const auto& map : {q, k, v}) p.append(map.value());
  for (const Tensor* t : {&x.table, &x.positions}) p.read(gpu::pointer(*t));
  p.write(x.chunks == 1 ? gpu::pointer(x.y) : Pointer());
  p.write(x.chunks == 1 ? Pointer() : gpu::pointer(x.parts));
  p.u32s(batch, heads / pack, heads / groups / pack, steps * pack, size);
  p.number(log2_scale(x.scale, x.softcap));
  p.u32s(tiles, steps, std::countr_zero(gpu::u32(pack)), x.table.size(1), x.keys.size(0), x.chunks, x.least, x.limit);
  p.number(cap_of(x.scale, x.softcap));
  gpu::enqueue(x.y.device(), {.kernel = *kernel.paged[x.y.dtype() == f16],
                              .op = call.op.name,
                              .arguments = p,
                              .groups = {gpu::u32(std::min(all, units_of(x.y.device()))), 1, 1},
                              .threads = gpu::u32(128 * (kernel.groups + 1)),
                              .shared_bytes = kernel.shared_bytes});
}

namespace {

/// All of a head of keys by one block, in one dispatch: hopper::AttentionShortBackward.
bool launch_short_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq, const Tensor& dk,
                            const Tensor& dv) {
  using namespace cubins;
  static const gpu::CubinKernel* const kernels[2][2] = {
      {&cubin_attention_short_bf16, &cubin_attention_short_bf16_causal},
      {&cubin_attention_short_f16, &cubin_attention_short_f16_causal}};
  constexpr std::uint32_t kBoxBytes = kShortRows * 128;
  const auto& attributes = call.as<AttentionAttrs>();
  CubinParameters p;  // hopper::AttentionShortParameters
  for (const Tensor* x : {&in.q, &in.k, &in.v, &kept.dy}) {
    const auto map = map_of(*x, kShortRows);
    if (!map) return false;
    p.append(*map);
  }
  for (const Tensor* x : {&kept.y, &kept.dy, &kept.logsumexp}) p.read(gpu::pointer(*x));
  for (const Tensor* x : {&dq, &dk, &dv}) p.write(gpu::pointer(*x));
  p.u32s(in.batch, in.heads, in.heads_per_group(), in.queries, in.keys, in.size);
  for (const Tensor* x : {&kept.y, &kept.dy, &dq, &dk}) p.strides(*x);
  p.number(static_cast<float>(attributes.scale));
  p.number(log2_scale(attributes.scale, attributes.softcap));
  gpu::enqueue(dq.device(), {.kernel = *kernels[dq.dtype() == f16][attributes.causal],
                             .op = call.op.name,
                             .arguments = p,
                             .groups = {gpu::u32(in.groups * in.batch), 1, 1},
                             .threads = 128,
                             .shared_bytes = 6 * kBoxBytes + 8 * kShortRows + 8});
  return true;
}

}  // namespace

bool launch_cubin_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq, const Tensor& dk,
                            const Tensor& dv) {
  if (!takes(call, in, {&kept.y, &kept.dy, &dq, &dk, &dv})) return false;
  const CubinBackward* kernel = backward_kernels(in.size, in.value_size, in.mask.defined());
  if (kernel == nullptr) return false;
  const bool plain = !in.mask.defined() && !is_general(call.as<AttentionAttrs>(), in);
  if (plain && in.size == in.value_size && dk.strides() == dv.strides() &&
      std::max({in.queries, in.keys, in.size}) <= kShortRows)
    return launch_short_gradients(call, in, kept, dq, dk, dv);
  const auto q = map_of(in.q, kernel->queries), dy = map_of(kept.dy, kernel->queries);
  const auto k = map_of(in.k, kernel->keys), v = map_of(in.v, kernel->keys);
  if (!q || !k || !v || !dy) return false;
  const Device device = dq.device();
  const auto& attributes = call.as<AttentionAttrs>();
  const bool f16s = dq.dtype() == f16, masked = in.mask.defined(), general = masked || is_general(attributes, in);
  const auto scale = static_cast<float>(attributes.scale);
  const std::int64_t heads = in.batch * in.heads, tiles = ceil_div(in.queries, kernel->queries),
                     key_tiles = ceil_div(in.keys, kernel->keys), rows_a_head = tiles * kernel->queries,
                     blocks_a_head = kernel->queries / 64 * kernel->size / 64 * tiles;
  if (heads * std::max({rows_a_head, key_tiles, blocks_a_head}) >= std::int64_t{1} << 31) return false;
  // The derivative of a soft cap comes from scores, which must not have a mask added.
  if (masked && attributes.softcap > 0 && in.mask.dtype() != boolean) return false;
  const auto mask = masked ? cubin_mask(call, in, true) : CubinMask();
  if (!mask) return false;
  const Tensor rows = empty({heads * rows_a_head, 2}, {f32, device}),
               turns = empty({heads * tiles * kernel->turns + 1}, {i32, device}),
               sums = empty({heads * blocks_a_head, 64 * 64}, {f32, device}),
               ranges = general ? empty({in.batch * (2 * key_tiles + tiles)}, {i32, device}) : Tensor();
  const auto launch = [&](const gpu::CubinKernel& one, const CubinParameters& p, std::int64_t blocks,
                          std::uint32_t threads, std::uint32_t shared_bytes) {
    gpu::enqueue(device, {.kernel = one,
                          .op = call.op.name,
                          .arguments = p,
                          .groups = {gpu::u32(blocks), 1, 1},
                          .threads = threads,
                          .shared_bytes = shared_bytes});
  };

  CubinParameters before;  // hopper::AttentionRowParameters
  for (const Tensor* x : {&kept.y, &kept.dy, &kept.logsumexp}) before.read(gpu::pointer(*x));
  for (const Tensor* x : {&rows, &turns}) before.write(gpu::pointer(*x));
  before.u32s(in.heads, in.queries, in.value_size, rows_a_head, heads * rows_a_head, turns.numel());
  before.strides(kept.y);
  before.strides(kept.dy);
  before.read(gpu::pointer(in.documents));
  before.write(gpu::pointer(ranges));
  before.u32s(in.batch, in.keys, attributes.causal, attributes.window, tiles, kernel->queries, key_tiles, kernel->keys);
  mask->append_to(before);
  using namespace cubins;
  static const gpu::CubinKernel* const rows_kernels[2][2] = {
      {&cubin_attention_rows_bf16, &cubin_attention_rows_f16},
      {&cubin_attention_rows_general_bf16, &cubin_attention_rows_general_f16}};
  launch(*rows_kernels[general][f16s], before,
         std::min(ceil_div(heads * rows_a_head, std::int64_t{32}), 16 * units_of(device)), 256, 0);

  CubinParameters p;  // hopper::AttentionGradientParameters
  for (const auto& map : {q, k, v, dy}) p.append(*map);
  p.read(gpu::pointer(rows));
  p.write(gpu::pointer(sums));
  p.read_write(gpu::pointer(turns));
  p.write(gpu::pointer(dk));
  p.write(gpu::pointer(dv));
  p.u32s(in.batch, in.heads, in.heads_per_group(), in.queries, in.keys, in.size, in.value_size);
  p.strides(dk);
  p.strides(dv);
  p.number(scale);
  p.number(log2_scale(attributes.scale, attributes.softcap));
  p.u32s(tiles, key_tiles, attributes.causal, attributes.window);
  p.number(cap_of(attributes.scale, attributes.softcap));
  p.read(gpu::pointer(in.documents));
  p.read(gpu::pointer(ranges));
  mask->append_to(p);
  launch(masked    ? *kernel->masked[f16s]
         : general ? *kernel->general[f16s]
                   : *kernel->kernels[f16s][attributes.causal],
         p, std::min(key_tiles * in.groups * in.batch, units_of(device)), 384, kernel->shared_bytes);

  CubinParameters behind;  // hopper::AttentionSumParameters
  behind.read(gpu::pointer(sums));
  behind.write(gpu::pointer(dq));
  behind.u32s(in.heads, in.queries, in.size, blocks_a_head, kernel->size / 64);
  behind.strides(dq);
  behind.number(scale);
  launch(f16s ? cubin_attention_sums_f16 : cubin_attention_sums_bf16, behind, heads * blocks_a_head, 128, 0);
  return true;
}

}  // namespace etna::attention
