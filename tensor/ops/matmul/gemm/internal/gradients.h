#pragma once

#include <etna/tensor/ops.h>

/// The building blocks of the gradients of linear and feed_forward, in public ops.
namespace etna::gemm {

/// Σ over rows of gᵀ · x; f32 for f16 and bf16. @param g [..., out] @param x [..., in] @return [out, in]
Tensor weight_gradient(const Tensor& g, const Tensor& x);
/// Σ over rows of g, in the same dtype. @return [out]
Tensor bias_gradient(const Tensor& g);

/// Adds a leading dimension to a vector: gemms take matrices.
inline Tensor as_rows(const Tensor& x) { return x.dim() == 1 ? x.unsqueeze(0) : x; }

}  // namespace etna::gemm
