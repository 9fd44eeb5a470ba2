#pragma once
// f32 numbers as sums of three bf16, and products of such numbers on the matrix units: see
// docs/decisions/005-f32-by-bf16-parts.md.
#include "hopper.cuh"

namespace hopper {

/// The parts of two neighbours, packed as bf16, the first in the lower half.
struct Parts {
  std::uint32_t high, middle, low;
};
__device__ __forceinline__ Parts split(float x, float y) {
  Parts p;
  p.high = pack<false>(x, y);
  const float2 high = unpack<false>(p.high);
  x -= high.x, y -= high.y;
  p.middle = pack<false>(x, y);
  const float2 middle = unpack<false>(p.middle);
  p.low = pack<false>(x - middle.x, y - middle.y);
  return p;
}

/// True for numbers that do not split into three parts: subnormal or nearly so, huge, infinite, NaN.
__device__ __forceinline__ bool outside(float x) {
  constexpr std::uint32_t least = (127u - 100u) << 23, end = (127u + 60u) << 23;
  const std::uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFu;
  return bits != 0 && bits - least >= end - least;
}

constexpr int kHigh = 0, kMiddle = 1, kLow = 2, kParts = 3;

/// Six of the nine products of parts, over STEPS of 16, small ones first: the matrix units truncate sums toward 0.
/// @param multiply (part of a, part of b, step, whether to add to the sums)
template <int STEPS, typename Multiply>
__device__ __forceinline__ void multiply_parts(const Multiply& multiply) {
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    multiply(kLow, kHigh, i, i > 0);
    multiply(kHigh, kLow, i, true);
    multiply(kMiddle, kMiddle, i, true);
  }
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    multiply(kMiddle, kHigh, i, true);
    multiply(kHigh, kMiddle, i, true);
  }
#pragma unroll
  for (int i = 0; i < STEPS; ++i) multiply(kHigh, kHigh, i, true);
}

}  // namespace hopper
