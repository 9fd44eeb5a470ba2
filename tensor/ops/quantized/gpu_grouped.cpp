#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/expert_gemm.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>
#include <etna/tensor/ops/quantized/internal/grouped_products.h>
#include <etna/tensor/ops/quantized/internal/sorted_rows.h>

// Products grouped by expert on a GPU: rows are copied into tiles of one expert, which a gemm multiplies.
namespace etna::quantized {
namespace {

/// Elements of sorted rows are counted in 32 bits. @return rows of R at once
std::int64_t rows_at_once(const Tensor& expert, std::int64_t experts, std::int64_t widest) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31, kTile = 64;
  return std::max<std::int64_t>(1, (kMost / std::max<std::int64_t>(widest, 1) - experts * kTile) / expert.size(1));
}

/// The rows of choices, or their sums over the choices of each row. @param x f32 [S, n] @param y [R, C, n] or [R, n]
void write_sorted(const OpCall& call, const Tensor& x, const Tensor& slots, bool summed, const Tensor& y) {
  const Shape own = summed ? slots.shape() : Shape{slots.numel(), 1};
  experts::merge(call, x, slots.reshape(own), ones(own, {f32, y.device()}), y.reshape({own[0], y.size(-1)}));
}

/// Calls a function with ranges of rows.
template <typename Each>
void for_each_part(std::int64_t rows, std::int64_t at_once, const Each& each) {
  for (std::int64_t from = 0; from < rows; from += at_once) each(from, std::min(rows, from + at_once));
}

void multiply_part(const OpCall& call, const GroupedProduct& p, const Tensor& y) {
  const std::int64_t experts = p.weights.size(0), rows = p.weights.size(1), columns = p.weights.size(2),
                     choices = p.expert.numel(), out = y.size(-1);
  const DType dtype = p.x.dtype();
  const std::int64_t tile = gemm::expert_tile(y.device(), dtype, choices, experts);
  const experts::SortedRows sorted = experts::sorted(call, p.x, p.expert, experts, tile, dtype, 0);
  const Tensor products = empty({sorted.x.size(0), out}, {f32, y.device()});
  gemm::GemmParams g;
  g.device = y.device();
  g.m = sorted.x.size(0);
  g.n = out;
  g.k = p.x.size(-1);
  g.dtype = dtype;
  g.a = {gpu::pointer(sorted.x), false, g.k, {}};
  g.b = {gpu::pointer(p.weights), !p.transposed, columns, {rows * columns, 0}};
  g.y = {gpu::pointer(products), f32, out};
  gemm::launch_expert_tiles(call, g, tile, gpu::pointer(sorted.tiles));
  write_sorted(call, products, sorted.slots, p.summed, y);
}

void gradient_part(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& expert, const Tensor& y) {
  const std::int64_t rows = a.size(-1), columns = b.size(-1), experts = y.size(0) / rows, choices = expert.numel();
  const DType dtype = a.dtype();
  const std::int64_t tile = gemm::expert_tile(y.device(), dtype, choices, experts);
  const experts::ChoiceRanks ranks = experts::ranks_by_expert(call, expert, experts, tile);
  const Tensor left = experts::sorted_rows(call, ranks, a, dtype), right = experts::sorted_rows(call, ranks, b, dtype);
  gemm::GemmParams g;
  g.device = y.device();
  g.outer = experts;
  g.m = rows;
  g.n = columns;
  g.k = choices;
  g.dtype = dtype;
  g.a = {gpu::pointer(left), true, rows, {}};
  g.b = {gpu::pointer(right), false, columns, {}};
  g.y = {gpu::pointer(y), f32, columns};
  gemm::launch_expert_sums(call, g, tile, gpu::pointer(experts::row_bounds(call, ranks)));
}

/// Blocks are decoded on the way: shaders/quantized/expert_transposed.comp.
void multiply_blocks_transposed(const OpCall& call, const Tensor& x, const ExpertMatrices& w, const Tensor& expert,
                                bool summed, const Tensor& y) {
  constexpr std::int64_t kTile = 32, kColumns = 128;
  const experts::SortedRows rows = experts::sorted(call, x, expert, w.experts, kTile, x.dtype(), 0);
  const Tensor products = empty({rows.x.size(0), w.columns}, {f32, y.device()});
  const BlockMatrix m = block_matrix(*w.format, w.blocks, w.experts * w.rows, w.columns);
  const std::int64_t tiles = rows.tiles.numel(), groups = (w.columns + kColumns - 1) / kColumns;
  gpu::Kernel(shaders::expert_transposed, call)
      .on(y.device())
      .spec(m.format, m.aligned, gpu::u32(x.dtype()), experts::load_width(rows.x, w.rows),
            experts::load_width(products, w.columns))
      .read(rows.x)
      .read(m.at)
      .read(rows.tiles)
      .write(products)
      .read(m.points(y.device()))
      .u32(tiles, w.rows, w.columns, m.row_bytes)
      .dispatch(gpu::grid(tiles * groups));
  write_sorted(call, products, rows.slots, summed, y);
}

}  // namespace

void multiply_transposed_by_choice(const OpCall& call, const Tensor& x, const ExpertMatrices& w, const Tensor& expert,
                                   bool summed, const Tensor& y) {
  for_each_part(expert.size(0), rows_at_once(expert, w.experts, std::max(w.rows, w.columns)),
                [&](std::int64_t from, std::int64_t to) {
                  multiply_blocks_transposed(call, x.slice(0, from, to), w, expert.slice(0, from, to), summed,
                                             y.slice(0, from, to));
                });
}

void multiply_grouped(const OpCall& call, const GroupedProduct& p, const Tensor& y) {
  const std::int64_t widest = std::max(p.x.size(-1), y.size(-1));
  for_each_part(p.expert.size(0), rows_at_once(p.expert, p.weights.size(0), widest),
                [&](std::int64_t from, std::int64_t to) {
                  GroupedProduct part = p;
                  for (Tensor* t : {&part.x, &part.expert}) *t = t->slice(0, from, to);
                  multiply_part(call, part, y.slice(0, from, to));
                });
}

void grouped_weight_gradient(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& expert,
                             const Tensor& y) {
  const std::int64_t experts = y.size(0) / a.size(-1);
  const auto own = [&](const Tensor& x, std::int64_t from, std::int64_t to) { return x.slice(0, from, to); };
  for_each_part(expert.size(0), rows_at_once(expert, experts, std::max(a.size(-1), b.size(-1))),
                [&](std::int64_t from, std::int64_t to) {
                  const Tensor part = from == 0 ? y : empty_like(y);
                  gradient_part(call, own(a, from, to), own(b, from, to), own(expert, from, to), part);
                  if (from > 0) Tensor(y).add_(part);
                });
}

}  // namespace etna::quantized
