#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <etna/tensor/tensor.h>

/// Elementwise functions: the rows of tables/elementwise.def, and functions composed of them.
namespace etna {

// ---- rows of tables/elementwise.def
#define ETNA_DECLARE_1(NAME) Tensor NAME(const Tensor& x);
#define ETNA_DECLARE_1n(NAME) Tensor NAME(const Tensor& x, double number);
#define ETNA_DECLARE_2n(NAME) Tensor NAME(const Tensor& a, const Tensor& b, double number);
#define ETNA_DECLARE_2(NAME)                     \
  Tensor NAME(const Tensor& a, const Tensor& b); \
  Tensor NAME(const Tensor& a, double b);        \
  Tensor NAME(double a, const Tensor& b);
#define ETNA_DECLARE_3(NAME)                                      \
  Tensor NAME(const Tensor& a, const Tensor& b, const Tensor& c); \
  Tensor NAME(const Tensor& a, const Tensor& b, double c);        \
  Tensor NAME(const Tensor& a, double b, const Tensor& c);
#define ETNA_ELEMENTWISE(NAME, ARITY, ...) ETNA_DECLARE_##ARITY(NAME)
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
#undef ETNA_DECLARE_1
#undef ETNA_DECLARE_1n
#undef ETNA_DECLARE_2n
#undef ETNA_DECLARE_2
#undef ETNA_DECLARE_3

inline Tensor operator-(const Tensor& x) { return neg(x); }
#define ETNA_OPERATOR(SYMBOL, NAME)                                                      \
  inline Tensor operator SYMBOL(const Tensor& a, const Tensor& b) { return NAME(a, b); } \
  inline Tensor operator SYMBOL(const Tensor& a, double b) { return NAME(a, b); }        \
  inline Tensor operator SYMBOL(double a, const Tensor& b) { return NAME(a, b); }
ETNA_OPERATOR(+, add)
ETNA_OPERATOR(-, sub)
ETNA_OPERATOR(*, mul)
ETNA_OPERATOR(/, div)
ETNA_OPERATOR(%, remainder)
ETNA_OPERATOR(==, eq)
ETNA_OPERATOR(!=, ne)
ETNA_OPERATOR(<, lt)
ETNA_OPERATOR(<=, le)
ETNA_OPERATOR(>, gt)
ETNA_OPERATOR(>=, ge)
#undef ETNA_OPERATOR
/// Logical operations on masks, bitwise operations on integers. @throws DtypeError for floats
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
Tensor operator&(const Tensor& a, std::int64_t b);
Tensor operator|(const Tensor& a, std::int64_t b);
Tensor operator^(const Tensor& a, std::int64_t b);
/// Shifts of integers. Shifting by a negative number, or by at least the number of bits, shifts everything out.
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
inline Tensor operator<<(const Tensor& a, std::int64_t b) { return bitwise_left_shift(a, static_cast<double>(b)); }
inline Tensor operator>>(const Tensor& a, std::int64_t b) { return bitwise_right_shift(a, static_cast<double>(b)); }

/// Converts to another dtype: rounds to nearest even among floats, truncates toward zero to integers, ≠ 0 to bool.
Tensor cast(const Tensor& x, DType dtype);
/// A contiguous copy.
Tensor copy(const Tensor& x);
/// mask ? value : x. @param mask bool, broadcasts with x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// NaN stays NaN. The gradient passes where lo ≤ x ≤ hi.
Tensor clamp(const Tensor& x, std::optional<double> lo, std::optional<double> hi);
/// The same with bounds that broadcast with x; an undefined bound does not limit. A NaN in a bound gives NaN.
Tensor clamp(const Tensor& x, const Tensor& lo, const Tensor& hi);
/// Chooses between two numbers, in f32. @param mask bool
Tensor where(const Tensor& mask, double a, double b);

// ---- composed
/// Rounds to `decimals` digits after the point, halves to even.
Tensor round(const Tensor& x, int decimals);
/// @param rounding_mode "floor" or "trunc"; integers stay integers
Tensor div(const Tensor& a, const Tensor& b, std::string_view rounding_mode);
Tensor div(const Tensor& a, double b, std::string_view rounding_mode);
/// start + weight · (end - start), exact at weights 0 and 1.
Tensor lerp(const Tensor& start, const Tensor& end, double weight);
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  ///< x + value · a · b
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  ///< x + value · a / b
/// Replaces NaN and infinities; by default, infinities become the dtype's largest and smallest finite numbers.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// |a - b| ≤ atol + rtol · |b|, and equal infinities. @return bool
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Whether x is ∞. @return bool
Tensor isposinf(const Tensor& x);
/// Whether x is -∞. @return bool
Tensor isneginf(const Tensor& x);
/// Which elements occur in `tests`. Compares every pair, in chunks of `tests`. @return bool, x's shape
Tensor isin(const Tensor& x, const Tensor& tests, bool invert = false);
/// The n-th derivative of digamma(), n ≥ 0: (-1)^(n+1) n! Σ (x + k)^-(n+1). On a GPU it underflows if the sum is below
/// 1e-38, even if n! times the sum is not.
/// @throws ShapeError for a negative n
Tensor polygamma(std::int64_t n, const Tensor& x);
/// log of the p-variate gamma function: p (p - 1)/4 · log π + Σ lgamma(x - j/2), j = 0 ... p - 1. Defined for x > (p -
/// 1)/2. This is not checked, since the values are on the device.
/// @throws ShapeError for p < 1
Tensor mvlgamma(const Tensor& x, std::int64_t p);
/// logit(clamp(x, eps, 1 - eps))
Tensor logit(const Tensor& x, double eps);
/// x · 2^other, computed with two factors to cover the whole range.
Tensor ldexp(const Tensor& x, const Tensor& other);
/// The result of frexp().
struct Frexp {
  Tensor mantissa;  ///< ½ ≤ |mantissa| < 1; x itself if x is 0, infinite or NaN
  Tensor exponent;  ///< i32; 0 if x is 0, infinite or NaN
};
/// x = mantissa · 2^exponent. @param x floating
Frexp frexp(const Tensor& x);
/// x · π/180
Tensor deg2rad(const Tensor& x);
/// x · 180/π
Tensor rad2deg(const Tensor& x);
/// pow() in f64, whatever the dtypes, as in PyTorch. No GPU kernel computes in f64, so it falls back to the CPU; pow()
/// does not.
Tensor float_power(const Tensor& a, const Tensor& b);
Tensor float_power(const Tensor& a, double b);
Tensor float_power(double a, const Tensor& b);
/// True everywhere: no dtype is complex here. @return bool
Tensor isreal(const Tensor& x);

// ---- results for the host: these wait for the device, and throw while capturing
/// True if isclose() is true for all elements.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// True if the shapes are equal and, after promotion, the values too; NaN differs from everything.
bool equal(const Tensor& a, const Tensor& b);

}  // namespace etna
