#pragma once

#include <etna/tensor/op.h>

/// Matmuls of i8 matrices with i32 sums, which are exact.
namespace etna::gemm {

/// Products of two i8 reach 2^14, so this many of them stay below 2^31.
inline constexpr std::int64_t kLongestInt8 = 131071;

/// What sums are multiplied by, in f32, where the result is floating: sum · row · column, rounded once to its dtype.
struct Int8Scales {
  Tensor row;     ///< one element, or one a row of the result; undefined: 1
  Tensor column;  ///< one element, or [N]
};

/// @param a [..., M, K] @param b [..., K, N] @param y [..., M, N] contiguous; i32, or floating where scaled
void int8_cpu(const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y);
/// False for f64 results.
bool int8_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y);

}  // namespace etna::gemm
