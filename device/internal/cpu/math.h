#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Scalar functions that the compiler can vectorize in a loop: no calls, no costly branches. The f32 forms are within a
/// few units in the last place; f64 uses the C library.
namespace etna::m {

inline double exp(double x) { return std::exp(x); }
/// 2^k · e^r with r in ±ln2/2; e^r is a polynomial of degree 6 (Taylor with a fitted last coefficient).
inline float exp(float x) {
  // NaN becomes -104: converting it to int is undefined.
  float clamped = !(x > -104.0f) ? -104.0f : x > 89.0f ? 89.0f : x;
  float k = std::nearbyint(clamped * 1.44269504f);
  float r = clamped - k * 0.693359375f + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  float e = p * r * r + r + 1.0f;
  // 2^k as two factors, so that both infinity and the subnormals are reached.
  int whole = static_cast<int>(k), half = whole >> 1;
  float first = std::bit_cast<float>((half + 127) << 23), second = std::bit_cast<float>((whole - half + 127) << 23);
  float y = e * first * second;
  return x != x ? x : y;
}

inline double log(double x) { return std::log(x); }
inline float log(float x) { return std::log(x); }
inline double log1p(double x) { return std::log1p(x); }
inline float log1p(float x) { return std::log1p(x); }
template <typename T>
T sqrt(T x) {
  return std::sqrt(x);
}
template <typename T>
T sin(T x) {
  return std::sin(x);
}
template <typename T>
T cos(T x) {
  return std::cos(x);
}
template <typename T>
T erf(T x) {
  return std::erf(x);
}

inline double tanh(double x) { return std::tanh(x); }
/// Taylor series below 0.35, where (1 - e)/(1 + e) loses digits; saturates above 9.
inline float tanh(float x) {
  float a = x < 0 ? -x : x, s = x * x;
  float series =
      x * (1.0f + s * (-0.33333333f + s * (0.13333333f + s * (-0.053968254f + s * (0.021869489f - s * 0.008863236f)))));
  float e = exp(-2.0f * (a < 9.5f ? a : 9.5f));
  float t = (1.0f - e) / (1.0f + e);
  float y = a < 0.35f ? series : x < 0 ? -t : t;
  return x != x ? x : y;
}

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <typename T>
T softplus(T x) {
  T magnitude = x < 0 ? -x : x;
  return (x > 0 ? x : x != x ? x : T(0)) + log1p(exp(-magnitude));
}

template <typename T>
T abs(T x) {
  return x < T(0) ? -x : x == T(0) ? T(0) : x;
}
/// NaN gives NaN.
template <typename T>
T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
}
template <typename T>
T maximum(T a, T b) {
  return (a > b || a != a) ? a : b;
}
template <typename T>
T minimum(T a, T b) {
  return (a < b || a != a) ? a : b;
}
template <typename T>
bool isfinite(T x) {
  return x - x == T(0);
}

inline double pow(double a, double b) { return std::pow(a, b); }
inline float pow(float a, float b) { return b == 2.0f ? a * a : std::pow(a, b); }
/// By squaring. A negative exponent gives 0, except for bases 1 and -1. Wraps around on overflow.
inline std::int64_t pow(std::int64_t a, std::int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1, base = static_cast<std::uint64_t>(a);
  for (; b > 0; b >>= 1, base *= base) {
    if (b & 1) result *= base;
  }
  return static_cast<std::int64_t>(result);
}

}  // namespace etna::m
