#pragma once

#include <cstdint>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

/// Shared by the ops made of linear layers: checks, and the gradient of two layers with an activation between them.
namespace etna::gemm {

/// The attributes of linear.
struct LinearAttrs {
  Activation activation = Activation::none;
  bool keeps = false;  ///< true: a second output, the preactivation, which the gradient needs
};
/// The attributes of feed_forward.
struct FeedForwardAttrs {
  Activation activation = Activation::none;
  bool keeps = false;  ///< true: two more outputs, the hidden values and the preactivation, which the gradient needs
};

/// The activation that an elementwise op computes, "gelu", or whose gradient it computes, "gelu_backward".
Activation activation_of(const OpDef& op);

/// @param wider bit i: input i may be wider than x, which is input 0 @param others bit i: input i is not checked
/// @throws DtypeError if an input is not floating or not of x's dtype
void check_dtypes(const OpCall& call, std::uint32_t wider, std::uint32_t others = 0);

/// @param which name of the layer @param weight must be [out, in] @param bias [out] or undefined @throws ShapeError
void check_linear_layer(const OpCall& call, const char* which, std::int64_t in, const Tensor& weight,
                        const Tensor& bias);

/// The inputs of backward of two layers with an activation between them.
struct FeedForward {
  Tensor x, up, down;
  Tensor hidden, preactivation;  ///< the second layer's input, and the input of the activation
  Activation activation = Activation::none;
};

/// The gradients of x, up, up_bias, down and down_bias that `needs` selects.
/// @param g gradient of the result @param g_hidden, g_preactivation gradients of the two saved tensors, if this
/// gradient is itself differentiated; any of the three may be undefined
TensorList feed_forward_gradients(const FeedForward& f, const Tensor& g, const Tensor& g_hidden,
                                  const Tensor& g_preactivation, const std::vector<bool>& needs);

}  // namespace etna::gemm
