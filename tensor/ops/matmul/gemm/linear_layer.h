#pragma once

#include <cstdint>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

/// What ops made of linear layers share: checks, and the gradient of two layers with an activation between.
namespace etna::gemm {

/// @param wider bit i: input i may be of a wider dtype than x, which is input 0; bit i of `others`: it is not looked at
/// @throws DtypeError where an input is not floating or not of x's dtype
void check_dtypes(const OpCall& call, std::uint32_t wider, std::uint32_t others = 0);

/// @param which the layer in words @param weight must be [out, in] @param bias [out] or undefined @throws ShapeError
void check_linear_layer(const OpCall& call, const char* which, std::int64_t in, const Tensor& weight,
                        const Tensor& bias);

/// What backward of two layers with an activation between starts from.
struct FeedForward {
  Tensor x, up, down;
  Tensor hidden, preactivation;  ///< what the second layer got, and what the activation was taken of
  Activation activation = Activation::none;
};

/// Gradients of x, up, up_bias, down, down_bias, as `needs` says.
/// @param g of the result; g_hidden, g_preactivation of the two that were kept, where this gradient is differentiated
/// in turn; each may be undefined
TensorList feed_forward_gradients(const FeedForward& f, const Tensor& g, const Tensor& g_hidden,
                                  const Tensor& g_preactivation, const std::vector<bool>& needs);

}  // namespace etna::gemm
