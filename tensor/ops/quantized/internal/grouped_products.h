#pragma once

#include <etna/tensor/op.h>

/// The GPU side of expert_matmul and expert_weight_gradient.
namespace etna::quantized {

/// The operands of expert_matmul.
struct GroupedProduct {
  Tensor x;        ///< [R, K] or [R, C, K]
  Tensor weights;  ///< [E, M, K], of the dtype of x
  Tensor expert;   ///< [R, C], of some choices
  bool transposed = false, summed = false;
};

/// @param product contiguous; K is not 0 @param y [R, C, M], or [R, M] if summed
void multiply_grouped(const OpCall& call, const GroupedProduct& product, const Tensor& y);
/// @param a [R, M] or [R, C, M], b [R, K] or [R, C, K]: contiguous @param expert [R, C], of some choices
/// @param y [E · M, K], f32
void grouped_weight_gradient(const OpCall& call, const Tensor& a, const Tensor& b, const Tensor& expert,
                             const Tensor& y);

}  // namespace etna::quantized
