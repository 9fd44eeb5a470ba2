#include <etna/tensor/ops/indexing/indexing.h>

#include <limits>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

constexpr double kEmbeddingBagMinusInfinity = -std::numeric_limits<double>::infinity();

/// Reduces dimension 1; dimension 0 is bags. @param counted undefined, or [B, N, 1]: the rows that count; the others
/// are 0 in sums
Tensor embedding_bag_reduce(const Tensor& rows, const Tensor& counted, BagMode mode) {
  if (mode == BagMode::max) {
    if (rows.size(1) == 0) return sum(rows, {1});
    if (!counted.defined()) return max(rows, {1});
    const Tensor best = max(masked_fill(rows, eq(counted, 0.0), kEmbeddingBagMinusInfinity), {1});
    return masked_fill(best, eq(best, kEmbeddingBagMinusInfinity), 0.0);
  }
  const Tensor total = sum(rows, {1});
  if (mode == BagMode::sum) return total;
  if (!counted.defined()) return rows.size(1) == 0 ? total : total / static_cast<double>(rows.size(1));
  return total / clamp_min(sum(counted.to(f32), {1}), 1.0).to(total.dtype());
}

/// The bag of each of n rows: the number of offsets at or before the row, counted on the device. @return [n] i64
Tensor bag_of_rows(const Tensor& offsets, std::int64_t n) {
  const Tensor begins = zeros({checked_sum(n, 1, "embedding_bag")}, {i64, offsets.device()});
  const Tensor counts = scatter_add(begins, 0, offsets.to(i64), ones(offsets.shape(), {i64, offsets.device()}));
  return cumsum(counts.slice(0, 0, n), 0) - 1.0;
}

void embedding_bag_check(const Tensor& weight, const Tensor& index, const Tensor& offsets, const Tensor& factors,
                         const EmbeddingBagOptions& options) {
  detail::require_defined("embedding_bag", weight, index);
  if (weight.dim() != 2)
    throw ShapeError(fmt::format("embedding_bag: the weight is {}; wanted [rows, dim]", str(weight.shape())));
  if (const auto& row = options.padding_idx; row && (*row < -weight.size(0) || *row >= weight.size(0))) {
    throw Error(
        fmt::format("embedding_bag: padding_idx {} is outside [{}, {})", *row, -weight.size(0), weight.size(0)));
  }
  if (offsets.defined() ? index.dim() != 1 || offsets.dim() != 1 : index.dim() != 2) {
    throw ShapeError(fmt::format("embedding_bag: index is {}, offsets {}; wanted [B, N] alone, or [N] and [B]",
                                 str(index.shape()), offsets.defined() ? str(offsets.shape()) : "are left out"));
  }
  if (offsets.defined() && options.include_last_offset && offsets.size(0) < 1)
    throw ShapeError("embedding_bag: include_last_offset needs one offset at least");
  if (!factors.defined()) return;
  if (options.mode != BagMode::sum) throw Error("embedding_bag: per_sample_weights are for the mode sum only");
  if (factors.shape() != index.shape()) {
    throw ShapeError(fmt::format("embedding_bag: per_sample_weights are {}, index is {}; wanted one shape",
                                 str(factors.shape()), str(index.shape())));
  }
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& index, const Tensor& offsets,
                     const EmbeddingBagOptions& options, const Tensor& factors) {
  embedding_bag_check(weight, index, offsets, factors, options);
  Tensor rows = embedding(weight, index), counted;
  if (const auto& row = options.padding_idx)
    counted = ne(index, static_cast<double>(*row < 0 ? *row + weight.size(0) : *row)).unsqueeze(-1);
  // where() instead of a multiplication: a row that does not count may contain an infinity.
  if (counted.defined() && options.mode != BagMode::max) rows = where(counted, rows, 0.0);
  if (factors.defined()) {
    const Tensor each = factors.to(rows.dtype()).unsqueeze(-1);
    rows = rows * (counted.defined() ? where(counted, each, 0.0) : each);
  }
  if (!offsets.defined()) return embedding_bag_reduce(rows, counted, options.mode);

  const std::int64_t n = index.size(0), bags = offsets.size(0) - (options.include_last_offset ? 1 : 0);
  const Tensor begins = offsets.slice(0, 0, bags);
  if (bags == 0 || n == 0) return zeros({bags, weight.size(1)}, {weight.dtype(), weight.device()});
  const Tensor bag = bag_of_rows(begins, n);
  if (options.mode == BagMode::max) {
    const Tensor which = cumsum(ones({bags}, {i64, bag.device()}), 0).unsqueeze(1) - 1.0;
    Tensor mine = eq(which, bag.unsqueeze(0)).unsqueeze(2);
    if (counted.defined()) mine = mine & counted.unsqueeze(0);
    return embedding_bag_reduce(rows.unsqueeze(0).expand({bags, n, weight.size(1)}), mine, options.mode);
  }
  const Tensor total = embedding_backward(rows, bag, bags);
  if (options.mode == BagMode::sum) return total;
  const Tensor each = counted.defined() ? counted.to(f32) : ones({n, 1}, {f32, bag.device()});
  return total / clamp_min(embedding_backward(each, bag, bags), 1.0).to(total.dtype());
}

}  // namespace etna
