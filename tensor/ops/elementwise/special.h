#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Elementwise functions composed of those in ops.h, where lgamma(), digamma(), i0(), logit(), gcd() and others are.
namespace etna {

/// The n-th derivative of digamma(), n ≥ 0: (-1)^(n+1) n! Σ (x + k)^-(n+1). On a GPU it underflows where the sum is
/// below 1e-38, though n! times the sum is not.
/// @throws ShapeError for a negative n
Tensor polygamma(std::int64_t n, const Tensor& x);
/// log of the p-variate gamma function: p (p - 1)/4 · log π + Σ lgamma(x - j/2), j = 0 ... p - 1. Defined for
/// x > (p - 1)/2, which is not checked: values are on the device.
/// @throws ShapeError for p < 1
Tensor mvlgamma(const Tensor& x, std::int64_t p);
/// logit(clamp(x, eps, 1 - eps))
Tensor logit(const Tensor& x, double eps);
/// x · 2^other, in two factors, so that it reaches the whole range.
Tensor ldexp(const Tensor& x, const Tensor& other);
/// What frexp() returns.
struct Frexp {
  Tensor mantissa;  ///< ½ ≤ |mantissa| < 1; x itself where that is 0, infinite or NaN
  Tensor exponent;  ///< i32, 0 there
};
/// x = mantissa · 2^exponent. @param x floating
Frexp frexp(const Tensor& x);
/// x · π/180
Tensor deg2rad(const Tensor& x);
/// x · 180/π
Tensor rad2deg(const Tensor& x);
/// pow() in f64 of any dtypes, as in PyTorch. No GPU kernel computes in f64: there it falls back, pow() does not.
Tensor float_power(const Tensor& a, const Tensor& b);
Tensor float_power(const Tensor& a, double b);
Tensor float_power(double a, const Tensor& b);
/// true everywhere: no dtype here is complex. @return bool
Tensor isreal(const Tensor& x);

}  // namespace etna
