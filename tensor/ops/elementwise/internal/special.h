#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <etna/device/internal/cpu/math.h>

/// Scalar functions for rows of elementwise.def that the C library lacks. They compute in double, for float too.
namespace etna::m {

/// std::lgamma() also writes a global variable, which would be a data race.
inline double lgamma(double x) {
#if defined(__unix__) || defined(__APPLE__)
  int sign = 0;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

/// The recurrence up to 10, then the asymptotic series. Negative arguments are reflected.
inline double digamma(double x) {
  constexpr double pi = 3.14159265358979324;
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    const double rest = x - std::nearbyint(x);
    if (rest == 0 || std::isinf(x)) return std::numeric_limits<double>::quiet_NaN();
    return digamma(1 - x) - pi / std::tan(pi * rest);
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double t = 1 / (x * x);
  const double series =
      t * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (1.0 / 132 - t * (691.0 / 32760))))));
  return sum + (std::log(x) - 0.5 / x - series);
}

/// Σ (q + k)^-s for q > 0: the first terms one by one, the rest by the Euler-Maclaurin formula.
inline double hurwitz_zeta_positive(double q, double s) {
  double sum = 0;
  for (const double end = 10 + s; q < end; q += 1) {
    const double term = std::pow(q, -s);
    sum += term;
    if (term <= 1e-17 * sum) return sum;
  }
  if (std::isinf(q)) return 0;
  // B(2j) / (2j)!
  constexpr double factors[] = {1.0 / 12,
                                -1.0 / 720,
                                1.0 / 30240,
                                -1.0 / 1209600,
                                1.0 / 47900160,
                                -691.0 / 1307674368000,
                                1.0 / 74724249600,
                                -3617.0 / 10670622842880000,
                                43867.0 / 5109094217170944000};
  const double power = std::pow(q, -s);
  sum += q * power / (s - 1) + 0.5 * power;
  double rising = s, scaled = power / q;
  for (int j = 0; j < 9; ++j) {
    sum += factors[j] * rising * scaled;
    rising *= (s + 2 * j + 1) * (s + 2 * j + 2);
    scaled /= q * q;
  }
  return sum;
}
/// For negative q, where s must be an integer, the terms below 0 are the difference of two such sums.
inline double hurwitz_zeta(double q, double s) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (!(s >= 1) || std::isnan(q)) return std::isnan(q) ? q : nan;
  if (s == 1) return std::numeric_limits<double>::infinity();
  if (q > 0) return hurwitz_zeta_positive(q, s);
  const double rest = q - std::nearbyint(q);
  if (std::isinf(q)) return nan;
  if (rest == 0) return std::numeric_limits<double>::infinity();
  if (s != std::floor(s)) return nan;
  const double above = rest > 0 ? rest : 1 + rest, below = rest > 0 ? 1 - rest : -rest;
  const double negative = hurwitz_zeta_positive(below, s) - hurwitz_zeta_positive(1 - q, s);
  return hurwitz_zeta_positive(above, s) + (std::fmod(s, 2) == 0 ? negative : -negative);
}

/// I0 and I1: the power series up to 20, all of whose terms are positive, then the asymptotic series.
/// @param order 0 or 1
inline double bessel_i(double x, int order) {
  if (std::isnan(x)) return x;
  const double size = std::abs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isinf(size)) return sign * size;
  double sum = 1, term = 1;
  if (size <= 20) {
    const double t = size * size / 4;
    for (int k = 1; term > 1e-17 * sum; ++k) sum += term *= t / (k * (k + order));
    return sign * (order == 1 ? size / 2 * sum : sum);
  }
  for (int k = 1; k < 40 && std::abs(term) > 1e-17; ++k) {
    const int odd = 2 * k - 1;
    sum += term *= (odd * odd - 4 * order) / (8 * size * k);
  }
  const double root = std::exp(size / 2);  // the square of root may overflow where the result does not
  return sign * (sum / std::sqrt(2 * 3.14159265358979324 * size) * root) * root;
}
inline double i0(double x) { return bessel_i(x, 0); }
inline double i1(double x) { return bessel_i(x, 1); }

inline float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
inline float hurwitz_zeta(float q, float s) {
  return static_cast<float>(hurwitz_zeta(static_cast<double>(q), static_cast<double>(s)));
}
inline float i0(float x) { return static_cast<float>(bessel_i(x, 0)); }
inline float i1(float x) { return static_cast<float>(bessel_i(x, 1)); }

/// log(x / (1 - x)). Near ½, where the result is small, log1p keeps its digits.
template <typename T>
T logit(T x) {
  if (x > T(0.25) && x < T(0.75)) return std::log1p((T(2) * x - T(1)) / (T(1) - x));
  return std::log(x / (T(1) - x));
}
/// log2(2^a + 2^b)
template <typename T>
T logaddexp2(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return a + T(1);
  const T high = a > b ? a : b, low = a > b ? b : a;
  return std::isinf(high) ? high : high + std::log1p(std::exp2(low - high)) * T(1.4426950408889634);
}

inline std::uint64_t magnitude(std::int64_t a) {
  return a < 0 ? 0 - static_cast<std::uint64_t>(a) : static_cast<std::uint64_t>(a);
}
/// Nonnegative, except 2^63, which wraps around.
inline std::int64_t gcd(std::int64_t a, std::int64_t b) {
  std::uint64_t x = magnitude(a), y = magnitude(b);
  while (y != 0) {
    const std::uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<std::int64_t>(x);
}
inline std::int64_t lcm(std::int64_t a, std::int64_t b) {
  const std::uint64_t common = magnitude(gcd(a, b));
  if (common == 0) return 0;
  const auto product = static_cast<std::int64_t>(magnitude(a) / common * magnitude(b));
  return static_cast<std::int64_t>(magnitude(product));
}

}  // namespace etna::m
