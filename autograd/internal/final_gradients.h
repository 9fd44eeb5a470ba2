#pragma once

#include <functional>

#include <etna/tensor/tensor.h>

/// Work on gradients while backward() still computes others': reducing them between processes, for example.
namespace etna::autograd {

/// Calls `hook` with a leaf when backward() has put its whole gradient into grad(): soon after nothing else will add to
/// it, a few nodes later. PyTorch's register_post_accumulate_grad_hook. Hooks of a leaf run in the order in which they
/// were registered.
/// @throws GradError unless the tensor is a leaf that requires grad
HookHandle register_final_gradient_hook(const Tensor& leaf, std::function<void(const Tensor& leaf)> hook);

/// Within such a hook: calls `f` once at the end of the backward() that runs.
void at_end_of_backward(std::function<void()> f);

}  // namespace etna::autograd
