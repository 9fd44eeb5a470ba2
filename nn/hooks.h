#pragma once

#include <functional>

#include <etna/tensor/op.h>

/// Functions that run around a module's call. A module without hooks pays one comparison for them.
namespace etna::nn {

class Module;

/// Gets the inputs before forward(). @return inputs to use instead; empty: leaves them
using ForwardPreHook = std::function<TensorList(const Module& module, const TensorList& inputs)>;
/// Gets inputs and outputs after forward(). @return outputs to use instead; empty: leaves them
using ForwardHook =
    std::function<TensorList(const Module& module, const TensorList& inputs, const TensorList& outputs)>;
/// Gets the gradients of the module's inputs and outputs (undefined where none) when backward has computed them.
/// @return gradients of the inputs to pass on instead; empty: leaves them. Where no input requires grad, there is
/// nothing to pass on and the list of theirs is all undefined.
using BackwardHook =
    std::function<TensorList(const Module& module, const TensorList& grad_inputs, const TensorList& grad_outputs)>;

using etna::HookHandle;

}  // namespace etna::nn
