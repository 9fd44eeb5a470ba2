#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Elementwise functions composed of rows of elementwise.def.
namespace etna {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<float>::max();
  }
}

/// Prepares integers for subtraction: converts to i32 at least.
Tensor widened(const Tensor& x) {
  if (is_floating(x.dtype())) return item_size(x.dtype()) == 2 ? x.to(f32) : x;
  return x.dtype() == i64 ? x : x.to(i32);
}

template <typename B>
Tensor rounded_division(const Tensor& a, const B& b, std::string_view mode) {
  if (mode == "floor") return floor_divide(a, b);
  if (mode != "trunc") {
    throw ShapeError(fmt::format("div: the rounding mode is \"{}\", it must be \"floor\" or \"trunc\"", mode));
  }
  const Tensor floored = floor_divide(a, b);
  return is_floating(floored.dtype()) ? trunc(a / b) : floor_divide(a - fmod(a, b), b);
}

}  // namespace

Tensor round(const Tensor& x, int decimals) {
  detail::require_defined("round", x);
  if (!is_floating(x.dtype()) || decimals == 0) return round(x);
  const double factor = std::pow(10.0, std::abs(decimals));
  return decimals > 0 ? round(x * factor) / factor : round(x / factor) * factor;
}

Tensor div(const Tensor& a, const Tensor& b, std::string_view rounding_mode) {
  detail::require_defined("div", a, b);
  return rounded_division(a, b, rounding_mode);
}
Tensor div(const Tensor& a, double b, std::string_view rounding_mode) {
  detail::require_defined("div", a);
  return rounded_division(a, b, rounding_mode);
}

Tensor lerp(const Tensor& start, const Tensor& end, double weight) {
  const Tensor distance = end - start;
  return std::abs(weight) < 0.5 ? add_scaled(start, distance, weight) : add_scaled(end, distance, weight - 1);
}
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  const Tensor distance = end - start;
  return where(lt(abs(weight), 0.5), add_scaled(start, distance, weight), add_scaled(end, distance, weight - 1.0));
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return value == 1 ? add_scaled(x, a, b) : add_scaled(x, a * b, value);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  return value == 1 ? x + a / b : add_scaled(x, a / b, value);
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  detail::require_defined("nan_to_num", x);
  if (!is_floating(x.dtype())) return x;
  const double limit = largest(x.dtype());
  const Tensor numbers = where(isnan(x), nan, x);
  return where(eq(x, kInfinity), posinf.value_or(limit), where(eq(x, -kInfinity), neginf.value_or(-limit), numbers));
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  detail::require_defined("isclose", a, b);
  if (!(rtol >= 0) || !(atol >= 0)) {
    throw ShapeError(fmt::format("isclose: the tolerances rtol {} and atol {} must not be negative", rtol, atol));
  }
  const Tensor x = widened(a), y = widened(b);
  const Tensor error = abs(x - y);
  Tensor close = logical_or(eq(x, y), logical_and(isfinite(error), le(error, abs(y) * rtol + atol)));
  return equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}
bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}
bool equal(const Tensor& a, const Tensor& b) {
  detail::require_defined("equal", a, b);
  return a.shape() == b.shape() && all(eq(a, b)).item<bool>();
}

Tensor isposinf(const Tensor& x) { return eq(x, kInfinity); }
Tensor isneginf(const Tensor& x) { return eq(x, -kInfinity); }

Tensor isin(const Tensor& x, const Tensor& tests, bool invert) {
  detail::require_defined("isin", x, tests);
  constexpr std::int64_t kComparisons = std::int64_t{1} << 22;  // bytes that one chunk's comparisons take
  const Tensor list = tests.flatten(), elements = x.unsqueeze(-1);
  const std::int64_t chunk = std::max<std::int64_t>(1, kComparisons / std::max<std::int64_t>(1, x.numel()));
  Tensor found;
  for (std::int64_t begin = 0; begin < list.numel(); begin += chunk) {
    const Tensor some = any(eq(elements, list.slice(0, begin, std::min(begin + chunk, list.numel()))), {-1});
    found = found.defined() ? logical_or(found, some) : some;
  }
  if (!found.defined()) found = zeros(x.shape(), {boolean, x.device()});
  return invert ? logical_not(found) : found;
}

}  // namespace etna
