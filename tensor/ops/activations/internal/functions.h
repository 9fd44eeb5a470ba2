#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <etna/device/internal/cpu/math.h>

/// Scalar functions for the rows of elementwise.def: float and double call the C library; integers where the rows
/// accept them.
namespace etna::m {

/// Calls a function of the C library; returns an integer unchanged.
#define ETNA_ROUNDING(NAME, FUNCTION)     \
  template <typename T>                   \
  T NAME(T x) {                           \
    if constexpr (std::is_integral_v<T>)  \
      return x;                           \
    else                                  \
      return static_cast<T>(FUNCTION(x)); \
  }
ETNA_ROUNDING(floor, std::floor)
ETNA_ROUNDING(ceil, std::ceil)
ETNA_ROUNDING(round, std::nearbyint)  // half to even
ETNA_ROUNDING(trunc, std::trunc)
#undef ETNA_ROUNDING

template <typename T>
bool isinf(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isinf(x);
}
template <typename T>
bool signbit(T x) {
  if constexpr (std::is_integral_v<T>)
    return x < 0;
  else
    return std::signbit(x);
}

/// Division by 0 gives 0, so that the remainder is the dividend. The least number divided by -1 wraps around.
inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a)) : a / b;
}
inline bool signs_differ(std::int64_t r, std::int64_t b) { return b != 0 && r != 0 && (r < 0) != (b < 0); }
inline std::int64_t fmod(std::int64_t a, std::int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
inline std::int64_t remainder(std::int64_t a, std::int64_t b) {
  const std::int64_t r = fmod(a, b);
  return signs_differ(r, b) ? r + b : r;
}
inline std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return quotient(a, b) - (signs_differ(fmod(a, b), b) ? 1 : 0);
}

template <typename T>
requires(std::is_floating_point_v<T>) T fmod(T a, T b) { return std::fmod(a, b); }
/// The result has the sign of b.
template <typename T>
requires(std::is_floating_point_v<T>) T remainder(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// a minus b times the integer nearest to the exact quotient.
template <typename T>
requires(std::is_floating_point_v<T>) T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T r = std::fmod(a, b);
  T q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return std::copysign(T(0), a) * std::copysign(T(1), b);
  const T whole = std::floor(q);
  return q - whole > T(0.5) ? whole + 1 : whole;
}

/// Shifting by a negative number, or by at least the number of bits, shifts everything out.
inline std::int64_t shift_left(std::int64_t a, std::int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b);
}
inline std::int64_t shift_right(std::int64_t a, std::int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

template <typename T>
T logaddexp(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return a + T(0.69314718055994531);
  const T high = a > b ? a : b, low = a > b ? b : a;
  return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
}
template <typename T>
T xlogy(T a, T b) {
  return std::isnan(b) ? b : a == 0 ? T(0) : a * std::log(b);
}
/// sin(πx)/(πx); 0 for integers other than 0.
template <typename T>
T sinc(T x) {
  constexpr T pi = T(3.14159265358979324);
  if (x == 0) return T(1);
  if (!std::isfinite(x)) return std::isnan(x) ? x : T(0);
  const T n = std::nearbyint(x), s = std::sin(pi * (x - n));
  return (std::fmod(n, T(2)) != 0 ? -s : s) / (pi * x);
}

/// The root of erf(y) = x: a closed approximation (Winitzki 2008), then Halley's steps on erf, or on erfc near ±1.
inline double erfinv(double x) {
  constexpr double pi = 3.14159265358979324, a = 0.147;
  const double size = std::abs(x);
  if (!(size <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (size == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (size < 1e-8) return x * 0.5 * std::sqrt(pi);
  const double w = std::log1p(-size) + std::log1p(size), c = 2 / (pi * a) + w / 2;
  double y = std::sqrt(std::sqrt(c * c - w / a) - c);
  for (int i = 0; i < 3; ++i) {
    const double error = size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
    const double step = error * 0.5 * std::sqrt(pi) * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}
inline float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

/// x · tanh(log(1 + eˣ)), as a quotient of polynomials in eˣ.
template <typename T>
T mish(T x) {
  const T e = exp(x < T(40) ? x : T(40)), n = e * (e + T(2));
  return x > T(40) ? x : x * n / (n + T(2));
}
template <typename T>
T logsigmoid(T x) {
  return (x < 0 ? x : x != x ? x : T(0)) - log1p(exp(x < 0 ? x : -x));
}
template <typename T>
T relu6(T x) {
  return minimum(maximum(x, T(0)), T(6));
}

}  // namespace etna::m
