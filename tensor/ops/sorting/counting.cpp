#include <fmt/format.h>

#include <etna/tensor/indexing.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/put.h>
#include <etna/tensor/ops/indexing/select_true.h>
#include <etna/tensor/recording.h>
#include <etna/tensor/sorting.h>

// Counting and distinct values: composed of sort, running sums and writes by index.
namespace etna {
namespace {

Tensor list_of(const Tensor& x) { return x.detach().reshape({x.numel()}); }

/// The first elements of runs of equal elements.
/// @param list [N] @param to_x undefined, or where each element of the list lies in x
Unique runs(const char* op, const Tensor& x, const Tensor& list, const Tensor& to_x, bool inverse, bool counts) {
  const std::int64_t n = list.numel();
  Unique found;
  if (n == 0) {
    recording::forbid(op, "the number of different values is read on the host");
    found.values = list;
    if (inverse) found.inverse = zeros(x.shape(), {i64, x.device()});
    if (counts) found.counts = zeros({0}, {i64, x.device()});
    return found;
  }
  Tensor begins = ones({1}, {boolean, x.device()});
  if (n > 1) begins = cat({begins, ne(list.slice(0, 1, n), list.slice(0, 0, n - 1))});
  const Tensor places = indexing::true_places(op, begins);
  found.values = index_select(list, 0, places);
  if (inverse) {
    const Tensor run = cumsum(begins, 0) - 1.0;
    found.inverse = to_x.defined() ? indexing::spread_along_last(op, {n}, to_x, run) : run;
    found.inverse = found.inverse.reshape(x.shape());
  }
  if (counts) {
    const Tensor first = places.to(i64), end = full({1}, static_cast<double>(n), {i64, x.device()});
    found.counts = cat({first.slice(0, 1, first.numel()), end}) - first;
  }
  return found;
}

}  // namespace

Unique unique(const Tensor& x, bool return_inverse, bool return_counts) {
  detail::require_defined("unique", x);
  const ValuesIndices sorted = sort(list_of(x), 0);
  return runs("unique", x, sorted.values, sorted.indices, return_inverse, return_counts);
}

Unique unique_consecutive(const Tensor& x, bool return_inverse, bool return_counts) {
  detail::require_defined("unique_consecutive", x);
  return runs("unique_consecutive", x, list_of(x), {}, return_inverse, return_counts);
}

Tensor histc(const Tensor& x, std::int64_t bins, double lo, double hi) {
  detail::require_defined("histc", x);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("histc: {} is not floating; use bincount, or .to(f32)", name(x.dtype())));
  if (bins < 1 || lo > hi)
    throw ShapeError(
        fmt::format("histc: {} bins from {} to {}; there must be at least one, from min to max", bins, lo, hi));
  const DType t = x.dtype() == f64 ? f64 : f32;
  const Tensor list = list_of(x).to(t);
  if (list.numel() == 0) return zeros({bins}, {x.dtype(), x.device()});
  Tensor least = full({}, lo, {t, x.device()}), most = full({}, hi, {t, x.device()});
  if (lo == hi) {
    least = min(list), most = max(list);
    const Tensor equal = eq(least, most);
    least = where(equal, least - 1.0, least), most = where(equal, most + 1.0, most);
  }
  const Tensor inside = logical_and(ge(list, least), le(list, most));
  const Tensor place = where(inside, (list - least) / (most - least) * static_cast<double>(bins), 0.0).to(i64);
  const Tensor counts = zeros({bins}, {i32, x.device()});
  return index_add(counts, 0, clamp(place, 0.0, static_cast<double>(bins - 1)), inside.to(i32)).to(x.dtype());
}

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t minlength) {
  detail::require_defined("bincount", x);
  if (!is_integral(x.dtype()) || x.dim() != 1) {
    throw DtypeError(fmt::format("bincount: {} {} is no list of integers", name(x.dtype()), str(x.shape())));
  }
  if (minlength < 0 || (weights.defined() && weights.shape() != x.shape())) {
    throw ShapeError(fmt::format("bincount: minlength {} and weights {} for {}; weights must be as many as numbers",
                                 minlength, weights.defined() ? str(weights.shape()) : "none", str(x.shape())));
  }
  recording::forbid("bincount", "the largest number is read on the host");
  std::int64_t length = minlength;
  if (x.numel() > 0) {
    const auto least = min(x).item<std::int64_t>();
    if (least < 0) throw IndexError(fmt::format("bincount: {} is negative", least));
    length = std::max(length, checked_sum(max(x).item<std::int64_t>(), 1, "bincount"));
  }
  const DType t = !weights.defined() ? i64 : weights.dtype() == f64 ? f64 : f32;
  const Tensor added = weights.defined() ? weights.to(t) : ones(x.shape(), {i64, x.device()});
  return index_add(zeros({length}, {t, x.device()}), 0, x.to(i64), added);
}

}  // namespace etna
