#pragma once

#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/tensor.h>

/// Matmul, and layers made of matmuls.
namespace etna {

/// Matrix product. Leading dimensions broadcast. A 1-d a is a row, a 1-d b a column; that dimension is dropped from the
/// result. f16 and bf16 accumulate in f32.
/// @param a [..., M, K] @param b [..., K, N] @return [..., M, N]
Tensor matmul(const Tensor& a, const Tensor& b);
/// matmul() with another result dtype: f32 for f16 or bf16 operands, so that the sums are not rounded.
Tensor matmul(const Tensor& a, const Tensor& b, DType out);
/// activation(x · weightᵀ + bias). For f16 and bf16 the gradients of weight and bias are f32; they are rounded once,
/// when a leaf accumulates them.
/// @param x [..., in] @param weight [out, in] @param bias [out] or undefined @return [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);
/// linear(linear(x, up, up_bias, activation), down, down_bias). The matmul kernels also compute the activation and its
/// derivative.
/// @param x [..., in] @param up [hidden, in] @param down [out, hidden]
/// @param up_bias, down_bias [hidden], [out] or undefined
Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation);
/// y[o] = a · weight[o] · bᵀ + bias[o].
/// @param a [..., in1] @param b [..., in2], with the same leading sizes @param weight [out, in1, in2]
/// @param bias [out] or undefined @return [..., out]
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});
/// (a · b) · activation'(at): the gradient of a matmul, passed back through the activation. @param at [..., M, N]
Tensor matmul_derivative(const Tensor& a, const Tensor& b, const Tensor& at, Activation activation);
/// Matmul of i8 operands with exact i32 sums. Leading dimensions broadcast. Not differentiable.
/// @param a [..., M, K] @param b [..., K, N], K ≤ 131071 @return [..., M, N] i32
Tensor int8_matmul(const Tensor& a, const Tensor& b);
/// (a · b) · row_scale · column_scale, computed in f32 and rounded once to `out`: f32, f16 or bf16. For quantized
/// layers.
/// @param row_scale f32, [..., M] or one number; undefined: 1
/// @param column_scale f32, [N] or one number; undefined: 1
Tensor int8_matmul(const Tensor& a, const Tensor& b, const Tensor& row_scale, const Tensor& column_scale, DType out);

/// The end of a transformer sublayer: sum = residual + linear(x, weight, bias), and the layer_norm of that sum, which
/// the next sublayer reads. On a GPU this is one kernel if the result has few rows of at most 256 elements: a small
/// model then waits for fewer kernels.
/// @param residual of the result's shape
/// @return both of the result's shape; under autocast the sum keeps the residual's dtype
AddedNorm linear_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                            const Tensor& norm_weight, const Tensor& norm_bias, double eps = 1e-5);
/// The same with feed_forward(x, up, up_bias, down, down_bias, activation) instead of linear.
AddedNorm feed_forward_layer_norm(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                                  const Tensor& down_bias, Activation activation, const Tensor& residual,
                                  const Tensor& norm_weight, const Tensor& norm_bias, double eps = 1e-5);

}  // namespace etna
