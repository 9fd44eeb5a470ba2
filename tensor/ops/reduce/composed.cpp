#include <etna/tensor/ops/reduce/reduce.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>

// Reductions composed of other reductions.
namespace etna {
namespace {

/// x^power with gradient 0 where x is 0: there pow() gets 1 and its result is dropped.
Tensor root(const Tensor& x, double power) {
  if (!grad_enabled() || !x.requires_grad()) return pow(x, power);
  const Tensor zero = eq(x, 0.0);
  return where(zero, 0.0, pow(where(zero, 1.0, x), power));
}

/// any() of u8 returns u8.
Tensor truth(const Tensor& y, const Tensor& x) { return x.dtype() == u8 ? y.to(u8) : y; }
Tensor nonzero_mask(const Tensor& x) { return x.dtype() == boolean ? x : ne(x, 0.0); }

Tensor powers(const Tensor& magnitude, double p) {
  if (p >= 1) return pow(magnitude, p);
  // The derivative at 0 is infinite: pow() gets 1 there and its result is dropped.
  const Tensor zero = eq(magnitude, 0.0);
  return where(zero, p > 0 ? 0.0 : std::numeric_limits<double>::infinity(), pow(where(zero, 1.0, magnitude), p));
}

/// (Σ |x|^p)^(1/p). x is first divided by its largest magnitude (for p < 0 its smallest), so that no power overflows or
/// underflows.
Tensor power_norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  const Tensor magnitude = abs(x);
  if (x.numel() == 0) return root(sum(powers(magnitude, p), dims, keepdim), 1 / p);
  Tensor unit;
  {
    GradMode off(false);
    unit = p > 0 ? max(magnitude, dims, true) : min(magnitude, dims, true);
    unit = where(logical_and(gt(unit, 0.0), isfinite(unit)), unit, 1.0);
  }
  const Tensor y = root(sum(powers(magnitude / unit, p), dims, true), 1 / p) * unit;
  if (keepdim) return y;
  const Dims reduced = wrap_dims(dims, x.dim(), "vector_norm");
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) {
    if (!reduced.contains(d)) shape.push_back(x.shape()[d]);
  }
  return y.reshape(shape);
}

}  // namespace

Tensor any(const Tensor& x, Dims dims, bool keepdim) {
  detail::require_defined("any", x);
  const Tensor mask = nonzero_mask(x);
  return truth(x.numel() == 0 ? gt(sum(mask, dims, keepdim), 0.0) : max(mask, dims, keepdim), x);
}
Tensor all(const Tensor& x, Dims dims, bool keepdim) {
  detail::require_defined("all", x);
  const Tensor mask = nonzero_mask(x);
  return truth(x.numel() == 0 ? eq(sum(mask, dims, keepdim), 0.0) : min(mask, dims, keepdim), x);
}
Tensor count_nonzero(const Tensor& x, Dims dims) {
  detail::require_defined("count_nonzero", x);
  return sum(nonzero_mask(x), dims);
}

Tensor amax(const Tensor& x, Dims dims, bool keepdim) { return max(x, dims, keepdim); }
Tensor amin(const Tensor& x, Dims dims, bool keepdim) { return min(x, dims, keepdim); }

std::pair<Tensor, Tensor> var_mean(const Tensor& x, Dims dims, bool keepdim, int correction) {
  return {var(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, Dims dims, bool keepdim, int correction) {
  return {etna::std(x, dims, keepdim, correction), mean(x, dims, keepdim)};
}

Tensor vector_norm(const Tensor& x, double p, Dims dims, bool keepdim) {
  detail::require_defined("vector_norm", x);
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("vector_norm: {} {} is not floating; convert it first, e.g. with .to(f32)",
                                 name(x.dtype()), str(x.shape())));
  }
  if (std::isnan(p)) throw ShapeError("vector_norm: the order is NaN");
  if (x.numel() == 0 && (p < 0 || std::isinf(p)) && sum(x, dims).numel() > 0) {
    throw ShapeError(fmt::format(
        "vector_norm: of order {} of no elements in {}: an empty set has no largest or smallest", p, str(x.shape())));
  }
  if (p == 2) return reduce::root_of_squares(x, dims, keepdim);
  const Tensor wide = item_size(x.dtype()) == 2 ? x.to(f32) : x;
  Tensor y;
  if (p == 0)
    y = sum(cast(ne(wide, 0.0), wide.dtype()), dims, keepdim);
  else if (p == 1)
    y = sum(abs(wide), dims, keepdim);
  else if (std::isinf(p))
    y = p > 0 ? max(abs(wide), dims, keepdim) : min(abs(wide), dims, keepdim);
  else
    y = power_norm(wide, p, dims, keepdim);
  return y.to(x.dtype());
}
Tensor norm(const Tensor& x, double p, Dims dims, bool keepdim) { return vector_norm(x, p, dims, keepdim); }

Tensor nansum(const Tensor& x, Dims dims, bool keepdim) {
  detail::require_defined("nansum", x);
  return is_floating(x.dtype()) ? sum(where(isnan(x), 0.0, x), dims, keepdim) : sum(x, dims, keepdim);
}
Tensor nanmean(const Tensor& x, Dims dims, bool keepdim) {
  detail::require_defined("nanmean", x);
  if (!is_floating(x.dtype())) return mean(x, dims, keepdim);  // mean() reports the wrong dtype and what to do
  const Tensor missing = isnan(x);
  const Tensor wide = item_size(x.dtype()) == 2 ? x.to(f32) : x;
  const Tensor count = sum(cast(logical_not(missing), wide.dtype()), dims, keepdim);
  return (sum(where(missing, 0.0, wide), dims, keepdim) / count).to(x.dtype());
}

}  // namespace etna
