#pragma once

#include <etna/tensor/op.h>

/// Matmuls of i8 matrices with exact i32 sums.
namespace etna::gemm {

/// i8 · i8 is at most 2^14, so a sum of this many stays below 2^31.
inline constexpr std::int64_t kLongestInt8 = 131071;

/// Factors of the sums if the result is floating: sum · row · column, in f32, rounded once to its dtype.
struct Int8Scales {
  Tensor row;     ///< one element, or one per row of the result; undefined: 1
  Tensor column;  ///< one element, or [N]
};

/// @param a [..., M, K] @param b [..., K, N] @param y [..., M, N] contiguous; i32, or floating with scales
void int8_cpu(const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y);
/// Returns false for f64 results.
bool int8_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y);

}  // namespace etna::gemm
