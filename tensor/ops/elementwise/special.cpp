#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// The functions of special.h, composed of rows of elementwise.def.
namespace etna {
namespace {

/// At least f32: for integers, and for formulas whose intermediate results overflow f16.
Tensor special_wide(const Tensor& x) { return !is_floating(x.dtype()) || item_size(x.dtype()) == 2 ? x.to(f32) : x; }
DType special_floating(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : f32; }

/// 2^exponent for integer exponents, as two factors that stay within the range of f32.
Tensor times_power(const Tensor& x, const Tensor& exponent) {
  const Tensor half = floor(exponent * 0.5);
  return x * exp2(half) * exp2(exponent - half);
}

}  // namespace

Tensor polygamma(std::int64_t n, const Tensor& x) {
  detail::require_defined("polygamma", x);
  if (n < 0) throw ShapeError(fmt::format("polygamma: the order is {}, it must not be negative", n));
  if (n == 0) return digamma(x);
  const auto order = static_cast<double>(n);
  const double factor = std::tgamma(order + 1) * (n % 2 == 0 ? -1 : 1);
  return (hurwitz_zeta(special_wide(x), order + 1) * factor).to(special_floating(x));
}

Tensor mvlgamma(const Tensor& x, std::int64_t p) {
  detail::require_defined("mvlgamma", x);
  if (p < 1) throw ShapeError(fmt::format("mvlgamma: p is {}, it must be at least 1", p));
  const Tensor a = special_wide(x);
  const auto count = static_cast<double>(p);
  Tensor sum = lgamma(a) + count * (count - 1) / 4 * 1.1447298858494002;  // log π
  for (std::int64_t j = 1; j < p; ++j) sum = sum + lgamma(a - 0.5 * static_cast<double>(j));
  return sum.to(special_floating(x));
}

Tensor logit(const Tensor& x, double eps) {
  detail::require_defined("logit", x);
  return logit(clamp(is_floating(x.dtype()) ? x : x.to(f32), eps, 1 - eps));
}

Tensor ldexp(const Tensor& x, const Tensor& other) {
  detail::require_defined("ldexp", x, other);
  const DType t = promote(special_floating(x), is_floating(other.dtype()) ? other.dtype() : special_floating(x));
  return times_power(special_wide(x), special_wide(other)).to(t);
}

Frexp frexp(const Tensor& x) {
  detail::require_defined("frexp", x);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("frexp: {} is not floating; convert it first, e.g. with .to(f32)", name(x.dtype())));
  const Tensor a = special_wide(x), size = abs(a.detach()), plain = logical_and(gt(size, 0.0), isfinite(size));
  // The logarithm may round up to the next integer; the quotient shows whether it did.
  const Tensor guess = floor(log2(where(plain, size, 0.5))) + 1.0;
  const Tensor scaled = times_power(where(plain, size, 0.5), -guess);
  const Tensor exponent = where(plain, guess + ge(scaled, 1.0).to(a.dtype()) - lt(scaled, 0.5).to(a.dtype()), 0.0);
  return {where(plain, times_power(a, -exponent), a).to(x.dtype()), exponent.to(i32)};
}

Tensor deg2rad(const Tensor& x) { return x * 0.017453292519943295; }
Tensor rad2deg(const Tensor& x) { return x * 57.29577951308232; }

Tensor float_power(const Tensor& a, const Tensor& b) {
  detail::require_defined("float_power", a, b);
  return pow(a.to(f64), b.to(f64));
}
Tensor float_power(const Tensor& a, double b) {
  detail::require_defined("float_power", a);
  return pow(a.to(f64), b);
}
Tensor float_power(double a, const Tensor& b) {
  detail::require_defined("float_power", b);
  return pow(a, b.to(f64));
}

Tensor isreal(const Tensor& x) {
  detail::require_defined("isreal", x);
  return ones(x.shape(), {boolean, x.device()});
}

}  // namespace etna
