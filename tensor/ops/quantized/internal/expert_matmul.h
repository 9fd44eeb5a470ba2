#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Products of rows with the weights of the experts that they choose, for mixtures whose weights are trained: rows of
/// an expert are multiplied together, those of all experts at once, and the choice stays on the device.
namespace etna {

struct ExpertMatmulOptions {
  bool transposed = false;  ///< W[e]ᵀ · x in place of W[e] · x
  bool summed = false;      ///< the choices of a row are added, in f32 for f16 and bf16
};

/// y[r, c] = W[expert[r, c]] · x[r, c], or of x[r] where the choices of a row share it. Differentiable in x and the
/// weights; the gradient of f16 and bf16 weights is f32, as that of linear().
/// @param x [R, K] or [R, C, K] floating @param weights [E · M, K] or [E, M, K]: the matrices of E experts; K and M
/// change places where they are transposed @param expert [R, C] i64 or i32, below E
/// @return [R, C, M], or [R, M] if summed @throws ShapeError, DtypeError, IndexError
Tensor expert_matmul(const Tensor& x, const Tensor& weights, const Tensor& expert, std::int64_t experts,
                     const ExpertMatmulOptions& options = {});

/// W[e] = Σ a[r, c] · b[r, c]ᵀ over the choices of each expert, in their order; 0 where there are none.
/// @param a [R, M] or [R, C, M], b [R, K] or [R, C, K]: floating @param expert as above
/// @return [E · M, K], f32 for f16 and bf16 @throws ShapeError, DtypeError, IndexError
Tensor expert_weight_gradient(const Tensor& a, const Tensor& b, const Tensor& expert, std::int64_t experts);

}  // namespace etna
