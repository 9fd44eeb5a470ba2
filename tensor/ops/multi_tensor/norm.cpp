#include <etna/tensor/ops/multi_tensor/norm.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>

namespace etna::multi_tensor {
namespace {

/// NaN wins.
double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

double add(double a, double b) { return a + b; }

/// Folds n values into several sums side by side, so that the loop is no chain of additions; then joins those.
template <typename S, typename Fold, typename Join>
double gather(const S* x, std::int64_t n, Fold fold, Join join) {
  constexpr std::int64_t kLanes = 16;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) sums[k] = fold(sums[k], static_cast<double>(x[i + k]));
  }
  for (; i < n; ++i) sums[0] = fold(sums[0], static_cast<double>(x[i]));
  double total = 0;
  for (double sum : sums) total = join(total, sum);
  return total;
}

}  // namespace

DType widest(std::span<const Tensor> tensors) {
  bool f64_there = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.dtype() == f64; });
  return f64_there ? f64 : f32;
}

void require_floating(const OpCall& call, std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (!is_floating(x.dtype()))
      throw DtypeError(fmt::format("{}: a tensor {} holds {}; floating dtypes are wanted", call.op.name, str(x.shape()),
                                   name(x.dtype())));
  }
}

double norm_on_cpu(std::span<const Tensor> tensors, double order) {
  Pieces pieces(kNormPiece);
  TensorList list;
  for (const Tensor& x : tensors) {
    list.push_back(x.contiguous());
    pieces.add(x.numel());
  }
  cpu::Scratch<double> partial(static_cast<std::size_t>(pieces.count()));
  pieces.parallel([&](std::int64_t piece, std::size_t k, std::int64_t begin, std::int64_t end) {
    auto typed = [&](auto zero) {
      using S = decltype(zero);
      alignas(64) S buffer[kNormPiece];
      const S* x = load(list[k], begin, end, buffer);
      std::int64_t n = end - begin;
      partial[static_cast<std::size_t>(piece)] =
          order == 2 ? gather(
                           x, n, [](double sum, double v) { return sum + v * v; }, add)
          : order == 1 ? gather(
                             x, n, [](double sum, double v) { return sum + std::abs(v); }, add)
                       : gather(
                             x, n, [](double sum, double v) { return larger(sum, std::abs(v)); }, larger);
    };
    if (list[k].dtype() == f64)
      typed(double{});
    else
      typed(float{});
  });
  double total = 0;
  for (double sum : partial) total = order == HUGE_VAL ? larger(total, sum) : add(total, sum);
  return order == 2 ? std::sqrt(total) : total;
}

Tensor composed_norm(std::span<const Tensor> tensors, double order) {
  DType t = widest(tensors);
  Tensor total = zeros({}, {t, tensors[0].device()});
  for (const Tensor& x : tensors) {
    if (order == HUGE_VAL && x.numel() == 0) continue;  // max() of nothing is an error
    Tensor wide = x.to(t);
    if (order == HUGE_VAL)
      total = maximum(total, max(abs(wide)));
    else
      total = total + sum(order == 2 ? square(wide) : abs(wide));
  }
  return order == 2 ? sqrt(total) : total;
}

TensorRows::TensorRows(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    Tensor x = tensor.contiguous();
    Row row;
    row.address[0] = x.address();
    row.elements = static_cast<std::uint32_t>(x.numel());
    row.first_piece = static_cast<std::uint32_t>(pieces.count());
    row.dtype[0] = vulkan::word(x.dtype());
    rows.push_back(row);
    pieces.add(x.numel());
    ranges.push_back(vulkan::range(x));
    kept.push_back(std::move(x));
  }
}

TensorRows::TensorRows(std::span<const Tensor> tensors, std::span<const Tensor> results) : TensorRows(tensors) {
  std::size_t row = 0;
  for (const Tensor& y : results) {
    if (y.numel() == 0) continue;
    rows[row].address[1] = y.address();
    rows[row++].dtype[1] = vulkan::word(y.dtype());
  }
}

std::vector<std::uint32_t> norm_spec(const Table& table, std::uint32_t order) {
  return {table.common_dtype[0], static_cast<std::uint32_t>(kNormPiece), table.width, order};
}

PartialSums::PartialSums(const OpCall& call, TensorRows& rows, Device device, std::uint32_t order)
    : sums(empty({rows.pieces.count()}, {f32, device})), table(make_table(device, {}, rows.rows)) {
  push = {.rows = table.rows,
          .count = table.count,
          .pieces = static_cast<std::uint32_t>(rows.pieces.count()),
          .partial = sums.address()};
  const vulkan::Range to = vulkan::range(sums);
  rows.ranges.push_back(vulkan::range(table.storage));
  gpu::record(device, {shaders::global_norm_pieces,
                          call.op.name,
                          norm_spec(table, order),
                          vulkan::bytes_of(push),
                          vulkan::grid(rows.pieces.count()),
                          rows.ranges,
                          {&to, 1}});
}

}  // namespace etna::multi_tensor
