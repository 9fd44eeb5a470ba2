#include <etna/tensor/ops/quantized/internal/sorted_rows.h>

#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>

// Rows by expert on a GPU.
namespace etna::quantized::experts {

std::uint32_t load_width(const Tensor& x, std::int64_t columns) {
  return columns % 4 == 0 && gpu::pointer(x).address % (4 * item_size(x.dtype())) == 0 ? 4 : 1;
}

ChoiceRanks ranks_by_expert(const OpCall& call, const Tensor& expert, std::int64_t experts, std::int64_t tile) {
  const std::int64_t choices = expert.numel(), tiles = choices / tile + std::min(experts, choices);
  const auto of_i32 = [&](Shape shape) { return empty(shape, {i32, expert.device()}); };
  const ChoiceRanks all{expert, of_i32({experts}), of_i32({choices}), of_i32(expert.shape()), of_i32({tiles}), experts,
                        tile};
  gpu::Kernel(shaders::expert_ranks, call)
      .spec(expert.dtype())
      .read(expert)
      .index_errors()
      .write(all.counts)
      .write(all.ranks)
      .write(all.tiles)
      .u32(choices, experts, tiles)
      .dispatch(gpu::grid(experts));
  return all;
}

Tensor sorted_rows(const OpCall& call, const ChoiceRanks& ranks, const Tensor& x, DType dtype, std::uint32_t order) {
  const std::int64_t choices = ranks.expert.numel(), k = x.size(-1);
  const Tensor y = empty({ranks.rows(), k}, {dtype, x.device()});
  gpu::Kernel(shaders::expert_rows, call)
      .spec(ranks.expert.dtype(), x.dtype(), dtype)
      .spec(std::min(load_width(x, k), load_width(y, k)), order)
      .read(x)
      .read(ranks.expert)
      .read(ranks.counts)
      .read(ranks.ranks)
      .write(ranks.slots)
      .read_write(ranks.tiles)
      .write(y)
      .u32(choices, k, ranks.experts, x.dim() == 3 ? 1 : ranks.expert.size(1), ranks.tile)
      .dispatch(gpu::grid(choices));
  return y;
}

SortedRows sorted(const OpCall& call, const Tensor& x, const Tensor& expert, std::int64_t experts, std::int64_t tile,
                  DType dtype, std::uint32_t order) {
  const ChoiceRanks ranks = ranks_by_expert(call, expert, experts, tile);
  return {sorted_rows(call, ranks, x, dtype, order), ranks.slots, ranks.tiles};
}

Tensor row_bounds(const OpCall& call, const ChoiceRanks& ranks) {
  const Tensor bounds = empty({ranks.experts, 2}, {i32, ranks.expert.device()});
  gpu::Kernel(shaders::expert_bounds, call)
      .read(ranks.counts)
      .write(bounds)
      .u32(ranks.experts, ranks.tile)
      .dispatch(gpu::grid(ranks.experts, 64));
  return bounds;
}

void merge(const OpCall& call, const Tensor& x, const Tensor& slots, const Tensor& factor, const Tensor& y) {
  const std::int64_t columns = y.size(1), quads = (columns + 3) / 4;
  gpu::Kernel(shaders::expert_merge, call)
      .spec(x.dtype(), y.dtype(), factor.dtype())
      .spec(std::min(load_width(x, columns), load_width(y, columns)))
      .read(x)
      .read(slots)
      .read(factor)
      .write(y)
      .u32(y.size(0), columns, slots.size(1))
      .dispatch(gpu::grid(y.size(0) * quads, 128));
}

}  // namespace etna::quantized::experts
