#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/sorting/internal/rows.h>
#include <etna/tensor/ops/sorting/sorting.h>

// Order statistics, composed of sort() and gather(). No value is read on the host.
namespace etna {
namespace {

/// @throws ShapeError if there are rows, but without elements
void statistics_check_rows(const char* op, const Tensor& x, int dim) {
  if (x.dim() == 0 || x.shape()[dim] > 0) return;
  Shape others = x.shape();
  others.erase(dim);
  if (numel(others) > 0)
    throw ShapeError(fmt::format("{}: dimension {} of {} has no elements", op, dim, str(x.shape())));
}

/// Elements at `place` [..., 1] of sorted rows.
ValuesIndices statistics_pick(const sorting::LastDim& rows, const ValuesIndices& sorted, const Tensor& place,
                              bool keepdim) {
  return {rows.reduced(gather(sorted.values, -1, place), keepdim),
          rows.reduced(gather(sorted.indices, -1, place), keepdim)};
}

/// Number of elements of each row that are not NaN. @return [..., 1] i64
Tensor numbers_in(const Tensor& x) {
  const Tensor there = eq(x, x);
  return sum(there, {-1}, true);
}

/// Half of each number, rounded down. @param x i64, not negative
Tensor halved(const Tensor& x) {
  // f32 has 24 bits: the rest of a larger number is halved separately.
  const Tensor near = clamp((x.to(f32) * 0.5).to(i64) - 512.0, 0.0, {});
  return near + ((x - near * 2.0).to(f32) * 0.5).to(i64);
}

ValuesIndices median_of(const char* op, const Tensor& x, std::int64_t dim, bool keepdim, bool skip_nan) {
  detail::require_defined(op, x);
  const int d = wrap_dim(dim, x.dim(), op);
  statistics_check_rows(op, x, d);
  const sorting::LastDim rows(x, d);
  const std::int64_t n = rows.x.size(-1);
  if (rows.x.numel() == 0) {
    Shape none = rows.x.shape();
    none.back() = 1;
    return {rows.reduced(rows.x.slice(-1, 0, 1), keepdim), rows.reduced(zeros(none, {i64, x.device()}), keepdim)};
  }
  const ValuesIndices sorted = sort(rows.x, -1);
  Shape one = rows.x.shape();
  one.back() = 1;
  const Tensor middle = full(one, static_cast<double>((n - 1) / 2), {i64, x.device()});
  if (!is_floating(x.dtype())) return statistics_pick(rows, sorted, middle, keepdim);
  const Tensor count = numbers_in(rows.x.detach());
  if (!skip_nan) {
    // NaN sorts last. If a row has a NaN, its median is the first NaN.
    return statistics_pick(rows, sorted, where(count < static_cast<double>(n), count, middle), keepdim);
  }
  return statistics_pick(rows, sorted, halved(clamp(count - 1.0, 0.0, {})), keepdim);
}

/// Interpolates the quantiles between the elements of sorted rows.
Tensor quantile_of(const char* op, const Tensor& given, const Tensor& q, std::optional<std::int64_t> dim, bool keepdim,
                   std::string_view interpolation, bool skip_nan) {
  detail::require_defined(op, given, q);
  if ((given.dtype() != f32 && given.dtype() != f64) || q.dtype() != given.dtype()) {
    throw DtypeError(
        fmt::format("{}: x is {} and q {}; both must be f32, or f64", op, name(given.dtype()), name(q.dtype())));
  }
  if (q.dim() > 1) throw ShapeError(fmt::format("{}: q is {}, it must be a number or a list", op, str(q.shape())));
  constexpr std::string_view kKinds[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  if (std::find(std::begin(kKinds), std::end(kKinds), interpolation) == std::end(kKinds)) {
    throw Error(
        fmt::format("{}: unknown interpolation '{}'; wanted one of {}", op, interpolation, fmt::join(kKinds, ", ")));
  }
  const Tensor x = dim ? given : given.reshape({given.numel()});
  const int d = wrap_dim(dim.value_or(0), x.dim(), op);
  const sorting::LastDim rows(x, d);
  const std::int64_t n = rows.x.size(-1);
  if (n == 0) throw ShapeError(fmt::format("{}: there are no elements in {}", op, str(given.shape())));
  const Tensor sorted = sort(rows.x, -1).values, count = numbers_in(rows.x.detach());
  const Tensor list = q.reshape({q.numel()}).to(x.device());
  const Tensor last = clamp(count - 1.0, 0.0, {}).to(x.dtype());
  Tensor rank = list * last;  // [..., Q]
  if (!skip_nan) rank = where(count < static_cast<double>(n), static_cast<double>(n - 1), rank);
  rank = rank.detach();
  const Tensor below = rank.to(i64), part = rank - below.to(x.dtype());
  const Tensor above = below + (part > 0.0).to(i64);
  Tensor y;
  if (interpolation == "lower") {
    y = gather(sorted, -1, below);
  } else if (interpolation == "higher") {
    y = gather(sorted, -1, above);
  } else if (interpolation == "nearest") {
    const Tensor odd = ne(below - halved(below) * 2.0, 0.0);
    const Tensor up = logical_or(part > 0.5, logical_and(eq(part, 0.5), odd));
    y = gather(sorted, -1, where(up, above, below));
  } else {
    const Tensor low = gather(sorted, -1, below), high = gather(sorted, -1, above);
    // Interpolates from the nearer end, as PyTorch does: that decides the result for infinities.
    const Tensor weight = interpolation == "midpoint" ? full({}, 0.5, {x.dtype(), x.device()}) : part;
    const Tensor width = high - low;
    const Tensor between = where(weight < 0.5, low + weight * width, high - width * (1.0 - weight));
    y = where(eq(part, 0.0), low, between);
  }
  // The quantiles become the first dimension; a single number adds no dimension.
  const bool all = !dim;
  Tensor first = y.transpose(-1, 0);
  if (y.dim() > 1) {
    Dims order{y.dim() - 1};
    for (int i = 0; i + 1 < y.dim(); ++i) order.push_back(i);
    first = y.permute(order);
  }
  Shape kept = given.shape();
  if (all) {
    kept = keepdim ? Dims::filled(given.dim(), 1) : Shape{};
  } else if (given.dim() > 0) {
    kept[d] = 1;
    if (!keepdim) kept.erase(d);
  }
  // [Q, ..., 1] with the dimension back in its original place.
  Tensor placed = first.unsqueeze(-1);
  if (x.dim() > 0) placed = placed.transpose(d + 1, -1);
  Shape shape = kept;
  if (q.dim() == 1) shape.insert(0, q.numel());
  return placed.reshape(shape);
}

Tensor statistics_number(double q, const Tensor& x, const char* op) {
  detail::require_defined(op, x);
  if (!(q >= 0 && q <= 1)) throw Error(fmt::format("{}: q is {}, it must be in [0, 1]", op, q));
  return scalar(q, {x.dtype() == f64 ? f64 : f32, x.device()});
}

ValuesIndices extreme(const char* op, const Tensor& x, std::int64_t dim, bool keepdim, bool largest) {
  detail::require_defined(op, x);
  const int d = wrap_dim(dim, x.dim(), op);
  statistics_check_rows(op, x, d);
  if (x.dim() == 0) return {x, zeros({}, {i64, x.device()})};
  const Tensor places = largest ? argmax(x, d, true) : argmin(x, d, true), values = gather(x, d, places);
  return keepdim ? ValuesIndices{values, places} : ValuesIndices{values.squeeze(d), places.squeeze(d)};
}

/// The median of all elements. Elements equal to it share the gradient.
Tensor median_of_all(const char* op, const Tensor& x, bool skip_nan) {
  detail::require_defined(op, x);
  const Tensor list = x.reshape({x.numel()}), y = median_of(op, list.detach(), 0, false, skip_nan).values;
  if (!x.requires_grad() || !grad_enabled()) return y;
  const Tensor equal = logical_and(eq(list, y), isfinite(list));
  const Tensor share = clamp(sum(equal).to(x.dtype()), 1.0, {});
  return y + sum(where(equal, list - y, 0.0)) / share;
}

}  // namespace

Tensor median(const Tensor& x) { return median_of_all("median", x, false); }
ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  return median_of("median", x, dim, keepdim, false);
}
Tensor nanmedian(const Tensor& x) { return median_of_all("nanmedian", x, true); }
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim) {
  return median_of("nanmedian", x, dim, keepdim, true);
}

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keepdim) {
  detail::require_defined("kthvalue", x);
  const int d = wrap_dim(dim, x.dim(), "kthvalue");
  const sorting::LastDim rows(x, d);
  const std::int64_t n = rows.x.size(-1);
  if (k < 1 || k > n)
    throw ShapeError(fmt::format("kthvalue: k is {}, it must be in [1, {}], the size of dimension {} of {}", k, n, d,
                                 str(x.shape())));
  const ValuesIndices first = topk(rows.x, k, -1, false);
  return {rows.reduced(first.values.slice(-1, k - 1, k), keepdim),
          rows.reduced(first.indices.slice(-1, k - 1, k), keepdim)};
}

Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  return quantile_of("quantile", x, statistics_number(q, x, "quantile"), dim, keepdim, interpolation, false);
}
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  return quantile_of("quantile", x, q, dim, keepdim, interpolation, false);
}
Tensor nanquantile(const Tensor& x, double q, std::optional<std::int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  return quantile_of("nanquantile", x, statistics_number(q, x, "nanquantile"), dim, keepdim, interpolation, true);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  return quantile_of("nanquantile", x, q, dim, keepdim, interpolation, true);
}

ValuesIndices mode(const Tensor& x, std::int64_t dim, bool keepdim) {
  detail::require_defined("mode", x);
  const int d = wrap_dim(dim, x.dim(), "mode");
  statistics_check_rows("mode", x, d);
  const sorting::LastDim rows(x, d);
  const std::int64_t n = rows.x.size(-1);
  const ValuesIndices sorted = sort(rows.x, -1);
  if (rows.x.numel() == 0) return median(x, dim, keepdim);
  const Tensor values = sorted.values.detach();
  // The length of the run of equal elements that ends at each position: the distance from the run's start.
  const Tensor place = indexing::numbers(n, x.device()).expand(values.shape());
  Tensor began = zeros_like(place);
  if (n > 1) {
    const Tensor begins = ne(values.slice(-1, 1, n), values.slice(-1, 0, n - 1));
    began = cat({place.slice(-1, 0, 1), where(begins, place.slice(-1, 1, n), 0.0)}, -1);
    began = cummax(began, -1).values;
  }
  return statistics_pick(rows, sorted, argmax(place - began, -1, true), keepdim);
}

ValuesIndices max_with_indices(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme("max_with_indices", x, dim, keepdim, true);
}
ValuesIndices min_with_indices(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme("min_with_indices", x, dim, keepdim, false);
}

}  // namespace etna
