#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// A gemm whose result is added to a residual stream, and the norm that the next sublayer reads: s = residual + a · b +
/// bias, y = norm(s).
/// = norm(s).
namespace etna::gemm {

struct GemmNorm {
  Tensor bias;                    ///< [N] or undefined
  Tensor residual;                ///< [..., M, N]
  Tensor norm_weight, norm_bias;  ///< [N] or undefined
  double eps = 0;
};

/// Longest rows, in elements, that the kernel supports.
inline constexpr std::int64_t kMaxNormColumns = 256;

/// Runs in one dispatch. Returns false, having queued nothing, if there is no kernel or if a gemm and a norm in two
/// dispatches are estimated to be faster.
/// @param x [..., M, K] @param w [N, K], with b = wᵀ
/// @param sum, y [..., M, N], contiguous; sum is of the residual's dtype
bool gemm_norm_on_gpu(const OpCall& call, const Tensor& x, const Tensor& w, const GemmNorm& n, Tensor& sum, Tensor& y);

}  // namespace etna::gemm
