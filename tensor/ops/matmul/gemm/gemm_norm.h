#pragma once

#include <etna/tensor/ops/matmul/gemm/gemm_params.h>

/// A gemm that ends in a residual stream, and the norm that the next part reads: s = residual + a · b + bias, y =
/// norm(s).
namespace etna::gemm {

struct GemmNorm {
  Tensor bias;                    ///< [N] or undefined
  Tensor residual;                ///< [..., M, N]
  Tensor norm_weight, norm_bias;  ///< [N] or undefined
  double eps = 0;
};

/// Elements of the longest rows that the kernel takes.
inline constexpr std::int64_t kMaxNormColumns = 256;

/// In one dispatch. False, having recorded nothing, where it has no kernel, or where a gemm and a norm in two
/// dispatches should be faster.
/// @param x [..., M, K] @param w [N, K], with b = wᵀ @param sum, y [..., M, N], contiguous; sum is of the residual's
/// dtype
bool gemm_norm_on_gpu(const OpCall& call, const Tensor& x, const Tensor& w, const GemmNorm& n, Tensor& sum, Tensor& y);

}  // namespace etna::gemm
