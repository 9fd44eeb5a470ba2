#pragma once
// The activations of tables/activations.def on the device; exp and tanh use the hardware instructions.
#include <cstdint>

namespace hopper {
namespace activations {

using real = float;

__device__ __forceinline__ float exp(float x) { return __expf(x); }
__device__ __forceinline__ float tanh(float x) { return tanhf(x); }
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
__device__ __forceinline__ float maximum(float a, float b) { return isnan(a) || a > b ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return isnan(a) || a < b ? a : b; }
__device__ __forceinline__ float erf(float a) {
  const float x = fabsf(a), s = a * a;
  if (x < 1.0f) {
    float p = 1.0f / 76204800.0f;
    p = p * s - 1.0f / 6894720.0f;
    p = p * s + 1.0f / 685440.0f;
    p = p * s - 1.0f / 75600.0f;
    p = p * s + 1.0f / 9360.0f;
    p = p * s - 1.0f / 1320.0f;
    p = p * s + 1.0f / 216.0f;
    p = p * s - 1.0f / 42.0f;
    p = p * s + 0.1f;
    p = p * s - 1.0f / 3.0f;
    p = p * s + 1.0f;
    return 1.1283791670955126f * a * p;
  }
  const float t = 1.0f / (1.0f + 0.3275911f * x);
  const float p =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float magnitude = 1.0f - p * __expf(-s);
  return isnan(a) ? a : a < 0 ? -magnitude : magnitude;
}

#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, t_, value, gradient, second) \
  __device__ __forceinline__ float name(float x) {                                                            \
    [[maybe_unused]] const float t = t_;                                                                      \
    return value;                                                                                             \
  }                                                                                                           \
  __device__ __forceinline__ float name##_backward(float g, float x) {                                        \
    [[maybe_unused]] const float t = t_;                                                                      \
    return gradient;                                                                                          \
  }
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION

}  // namespace activations

/// @param activation etna::Activation
__device__ __forceinline__ float activated(float x, std::uint32_t activation) {
  switch (activation) {
#define ETNA_ACTIVATION(number, name, ...) \
  case number:                             \
    return activations::name(x);
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION
    default:
      return x;
  }
}

__device__ __forceinline__ float activation_derivative(float x, std::uint32_t activation) {
  switch (activation) {
#define ETNA_ACTIVATION(number, name, ...) \
  case number:                             \
    return activations::name##_backward(1.0f, x);
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION
    default:
      return 1.0f;
  }
}

}  // namespace hopper
