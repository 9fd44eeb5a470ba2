#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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
/// each parameter; without momentum there are no buffers. Parameters and buffers are contiguous, buffers f32 (f64 for f64). Behind
/// them may stand a step's control (control_step_).
void sgd_step_(std::span<const Tensor> list, const SGDStep& step);
/// Asks for the numbers each time it runs, at replays of a captured step, too (momentum may not come or go there).
void sgd_step_(std::span<const Tensor> list, const std::function<SGDStep()>& step);

struct AdamStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  std::int64_t step = 1;   ///< counted from 1; corrects the bias of the moments
  bool decoupled = false;  ///< AdamW
};
/// One step of Adam or AdamW (formula: <etna/optim/adam.h>). @param list parameter, gradient, first moment, second moment, and so
/// on for each parameter. Parameters and moments are contiguous, moments f32 (f64 for f64). Behind them may stand a step's control
/// (control_step_); where it says that steps were skipped, the bias is corrected for those that were made.
void adam_step_(std::span<const Tensor> list, const AdamStep& step);
/// Asks for the numbers each time it runs, at replays of a captured step, too.
void adam_step_(std::span<const Tensor> list, const std::function<AdamStep()>& step);

/// The norm of all tensors as one vector. Sums in f64 on the CPU, in f32 blockwise on a GPU.
/// @param order 2, 1 or infinity @return 0-d, f32 (f64 where one of them is)
Tensor global_norm(std::span<const Tensor> tensors, double order = 2);

/// Multiplies every tensor by min(1, max_norm / (norm + 1e-6)). @param norm 0-d, on their device; NaN makes all NaN
void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm);

/// What an optimizer's step does with all its gradients, found on their device and read there: four f32.
struct StepControl {
  float factor = 1;   ///< that gradients are multiplied by: unscaled and clipped
  float norm = 0;     ///< of the unscaled gradients as one vector, before clipping
  float skipped = 0;  ///< steps so far that were not made
  float skip = 0;     ///< 1: this one is not made
};

/// Fills `control` [4] anew, `skipped` counted on, from gradients that wait for their step.
/// @param loss_scale [3] (update_loss_scale_), or undefined: gradients that are not finite then reach the parameters, to be seen;
/// with it they make the step a skipped one, and are noted in loss_scale
/// @param max_norm the factor keeps the norm at most at this; 0: no bound @param scaled the gradients still hold the loss scale
void control_step_(const Tensor& control, const Tensor& loss_scale, std::span<const Tensor> gradients, double max_norm,
                   bool scaled);

/// Divides every tensor by the scale. @param loss_scale [3]
void unscale_(std::span<const Tensor> tensors, const Tensor& loss_scale);

/// Every tensor times a number on their device. @param factor 0-d f32 (f64 where one of them is)
std::vector<Tensor> multiply_all(std::span<const Tensor> tensors, const Tensor& factor);

struct LossScaleUpdate {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};
/// The end of a step under loss scaling (Micikevicius et al. 2018). Where a gradient was not finite the scale is multiplied by
/// `backoff`; after `interval` steps in a row without one, by `growth`, unless it would overflow. Clears the note.
/// @param loss_scale [3] f32: the scale, such steps so far, whether a gradient was not finite
void update_loss_scale_(const Tensor& loss_scale, const LossScaleUpdate& update);

}  // namespace etna
