#pragma once

#include <cstdint>

#include <etna/tensor/ops/quantized/internal/expert_matmul.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna {

/// Matmuls with the weights of experts that rows choose: y[r, c] = W[expert[r, c]] · x[r], for a mixture of experts
/// (Shazeer et al. 2017). The choice stays on the device. The CPU multiplies the rows of an expert together; a GPU runs
/// one dispatch, in which each choice reads the weights of its expert, or sorts many rows by expert. Differentiable in
/// x: the gradient is the product with the transposed weights, whose blocks are decoded tile by tile.
/// @param x [R, K], or [R, C, K] with a row for each choice; floating
/// @param weights [E · M, K]: the matrices of E experts, one below the other, in any format but those with a scale of
/// the whole tensor
/// @param expert [R, C] i64 or i32, below E @return [R, C, M], or [R, M] if summed, in the dtype of x
/// @throws ShapeError, DtypeError, IndexError
Tensor expert_linear(const Tensor& x, const QuantizedTensor& weights, const Tensor& expert, std::int64_t experts,
                     const ExpertMatmulOptions& options = {});

}  // namespace etna
