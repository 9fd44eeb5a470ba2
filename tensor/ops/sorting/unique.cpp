#include <fmt/format.h>

#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/select_true.h>
#include <etna/tensor/ops/sorting/sorting.h>

// Distinct values: composed of sort, running sums and writes by index.
namespace etna {
namespace {

Tensor unique_list_of(const Tensor& x) { return x.detach().reshape({x.numel()}); }

/// The slices of x along dimension d as rows.
Tensor unique_rows_of(const char* op, const Tensor& x, int d) {
  if (x.numel() == 0 && x.size(d) > 0)
    throw ShapeError(fmt::format("{}: the slices of {} along dimension {} have no elements", op, str(x.shape()), d));
  const Tensor first = movedim(x.detach(), d, 0);
  return first.reshape({x.size(d), x.size(d) == 0 ? 0 : x.numel() / x.size(d)});
}

/// The order of rows by their first elements, then by their second ones, and so on.
Tensor order_of(const Tensor& rows) {
  Tensor order;
  for (std::int64_t c = rows.size(1) - 1; c >= 0; --c) {
    const Tensor column = rows.select(1, c);
    const Tensor next = argsort(order.defined() ? index_select(column, 0, order) : column, 0);
    order = order.defined() ? index_select(order, 0, next) : next;
  }
  return order;
}

/// The first elements (or rows) of runs of equal ones.
/// @param list [N] or [N, W] @param shape of the inverse
/// @param order undefined, or the position in x of each element of the list
Unique runs(const char* op, const Tensor& list, const Shape& shape, const Tensor& order, bool inverse, bool counts) {
  const std::int64_t n = list.size(0);
  const Device device = list.device();
  Unique found;
  if (n == 0) {
    capture_hooks::forbid(op, "the number of different values is read on the host");
    found.values = list;
    if (inverse) found.inverse = zeros(shape, {i64, device});
    if (counts) found.counts = zeros({0}, {i64, device});
    return found;
  }
  Tensor begins = ones({1}, {boolean, device});
  if (n > 1) {
    const Tensor differs = ne(list.slice(0, 1, n), list.slice(0, 0, n - 1));
    begins = cat({begins, list.dim() == 1 ? differs : any(differs, {1})});
  }
  const Tensor places = indexing::true_places(op, begins);
  found.values = index_select(list, 0, places);
  if (inverse) {
    const Tensor run = cumsum(begins, 0) - 1.0;
    found.inverse = order.defined() ? indexing::spread_along_last(op, {n}, order, run) : run;
    found.inverse = found.inverse.reshape(shape);
  }
  if (counts) {
    const Tensor first = places.to(i64), end = full({1}, static_cast<double>(n), {i64, device});
    found.counts = cat({first.slice(0, 1, first.numel()), end}) - first;
  }
  return found;
}

/// runs() of the slices of x along a dimension.
Unique runs_along(const char* op, const Tensor& x, std::int64_t dim, bool sorted, bool inverse, bool counts) {
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: a tensor without dimensions has no slices; leave dim out", op));
  const int d = wrap_dim(dim, x.dim(), op);
  const Tensor rows = unique_rows_of(op, x, d);
  const Tensor order = sorted && rows.size(0) > 0 ? order_of(rows) : Tensor();
  Unique found = runs(op, order.defined() ? index_select(rows, 0, order) : rows, {x.size(d)}, order, inverse, counts);
  Shape shape = movedim(x.detach(), d, 0).shape();
  shape[0] = found.values.size(0);
  found.values = movedim(found.values.reshape(shape), 0, d);
  return found;
}

}  // namespace

Unique unique(const Tensor& x, bool return_inverse, bool return_counts, std::optional<std::int64_t> dim) {
  detail::require_defined("unique", x);
  if (dim) return runs_along("unique", x, *dim, true, return_inverse, return_counts);
  const ValuesIndices sorted = sort(unique_list_of(x), 0);
  return runs("unique", sorted.values, x.shape(), sorted.indices, return_inverse, return_counts);
}

Unique unique_consecutive(const Tensor& x, bool return_inverse, bool return_counts, std::optional<std::int64_t> dim) {
  detail::require_defined("unique_consecutive", x);
  if (dim) return runs_along("unique_consecutive", x, *dim, false, return_inverse, return_counts);
  return runs("unique_consecutive", unique_list_of(x), x.shape(), {}, return_inverse, return_counts);
}

}  // namespace etna
