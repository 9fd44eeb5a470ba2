#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/sorting/sorting.h>

// Counting, composed of writes by index.
namespace etna {
namespace {

Tensor counting_list_of(const Tensor& x) { return x.detach().reshape({x.numel()}); }

}  // namespace

Tensor histc(const Tensor& x, std::int64_t bins, double lo, double hi) {
  detail::require_defined("histc", x);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("histc: {} is not floating; use bincount, or .to(f32)", name(x.dtype())));
  if (bins < 1 || lo > hi)
    throw ShapeError(
        fmt::format("histc: got {} bins from {} to {}; wanted at least one bin and min <= max", bins, lo, hi));
  const DType t = x.dtype() == f64 ? f64 : f32;
  const Tensor list = counting_list_of(x).to(t);
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
    throw DtypeError(fmt::format("bincount: got {} {}; wanted a list of integers", name(x.dtype()), str(x.shape())));
  }
  if (minlength < 0 || (weights.defined() && weights.shape() != x.shape())) {
    throw ShapeError(fmt::format("bincount: got minlength {} and weights {} for {}; wanted one weight per number",
                                 minlength, weights.defined() ? str(weights.shape()) : "none", str(x.shape())));
  }
  capture_hooks::forbid("bincount", "the largest number is read on the host");
  std::int64_t length = minlength;
  if (x.numel() > 0) {
    const auto least = min(x).item<std::int64_t>();
    if (least < 0) throw IndexError(fmt::format("bincount: got {}; wanted integers >= 0", least));
    length = std::max(length, checked_sum(max(x).item<std::int64_t>(), 1, "bincount"));
  }
  const DType t = !weights.defined() ? i64 : weights.dtype() == f64 ? f64 : f32;
  const Tensor added = weights.defined() ? weights.to(t) : ones(x.shape(), {i64, x.device()});
  return index_add(zeros({length}, {t, x.device()}), 0, x.to(i64), added);
}

}  // namespace etna
