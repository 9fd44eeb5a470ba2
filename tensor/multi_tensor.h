#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <etna/tensor/tensor.h>

/// Ops over many tensors at once: what optimizers are made of. Each is one pass, on a GPU one dispatch (global_norm: two). They
/// change tensors in place and are not recorded: call them under NoGrad.
namespace etna {

struct SGDStep {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  ///< the momentum buffers hold nothing yet
};
/// One step of gradient descent (formula: <etna/optim/sgd.h>). @param list parameter, gradient, momentum buffer, and so on for
/// each parameter; without momentum there are no buffers. Parameters and buffers are contiguous, buffers f32 (f64 for f64).
void sgd_step_(std::span<const Tensor> list, const SGDStep& step);
/// Asks for the numbers each time it runs, at replays of a captured step, too (momentum may not come or go there).
void sgd_step_(std::span<const Tensor> list, const std::function<SGDStep()>& step);

struct AdamStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  std::int64_t step = 1;   ///< counted from 1; corrects the bias of the moments
  bool decoupled = false;  ///< AdamW
};
/// One step of Adam or AdamW (formula: <etna/optim/adam.h>). @param list parameter, gradient, first moment, second moment, and so
/// on for each parameter. Parameters and moments are contiguous, moments f32 (f64 for f64).
void adam_step_(std::span<const Tensor> list, const AdamStep& step);
/// Asks for the numbers each time it runs, at replays of a captured step, too.
void adam_step_(std::span<const Tensor> list, const std::function<AdamStep()>& step);

/// The norm of all tensors as one vector. Sums in f64 on the CPU, in f32 blockwise on a GPU.
/// @param order 2, 1 or infinity @return 0-d, f32 (f64 where one of them is)
Tensor global_norm(std::span<const Tensor> tensors, double order = 2);

/// Multiplies every tensor by min(1, max_norm / (norm + 1e-6)). @param norm 0-d, on their device; NaN makes all NaN
void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm);

}  // namespace etna
