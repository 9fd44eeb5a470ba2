#pragma once
// The activations of tables/activations.def on the device: tanh, sigmoid and erf to some 2e-7 of 1, from the hardware's
// exp and reciprocal. True divisions, tanhf() and a series near 0 cost a gemm with gelu a third of its time.
#include <cstdint>

#include "hopper.cuh"

namespace hopper {
namespace activations {

using real = float;

__device__ __forceinline__ float exp(float x) { return exp2_fast(x * 1.44269504088896f); }
__device__ __forceinline__ float tanh(float x) {
  return copysignf(1.0f - 2.0f * reciprocal_fast(1.0f + exp(2.0f * fabsf(x))), x);
}
__device__ __forceinline__ float sigmoid(float x) { return reciprocal_fast(1.0f + exp(-x)); }
__device__ __forceinline__ float maximum(float a, float b) { return isnan(a) || a > b ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return isnan(a) || a < b ? a : b; }
/// Abramowitz and Stegun 7.1.26.
__device__ __forceinline__ float erf(float x) {
  const float t = reciprocal_fast(1.0f + 0.3275911f * fabsf(x));
  const float p =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return copysignf(1.0f - p * exp(-x * x), x);
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

/// gelu_tanh and its derivative with the factor of exp2_fast() in their constants, for epilogues of gemms.
__device__ __forceinline__ float gate_of_gelu_tanh(float x, float square) {
  constexpr float kLog2e = 1.44269504088896f;
  return reciprocal_fast(1.0f +
                         exp2_fast(x * (-1.5957691216057308f * kLog2e - 0.07135481627260025f * kLog2e * square)));
}
__device__ __forceinline__ float fast_gelu_tanh(float x) { return x * gate_of_gelu_tanh(x, x * x); }
__device__ __forceinline__ float fast_gelu_tanh_derivative(float x) {
  const float square = x * x, t = gate_of_gelu_tanh(x, square);
  return t + x * t * (1.0f - t) * (1.5957691216057308f + 0.21406444881780073f * square);
}

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
