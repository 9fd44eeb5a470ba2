#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <etna/tensor/tensor.h>

/// Ops over many tensors at once: what optimizers are made of. Each is one pass, on a GPU one dispatch (global_norm:
/// two). They change tensors in place and are not recorded: call them under NoGrad.
namespace etna {

/// Numbers of an optimizer's step that change from step to step: 0-d each, f32 on a GPU, f64 on the CPU. `step` counts
/// from 1, where the states hold nothing yet; steps that a control counts as skipped are taken off it.
struct StepNumbers {
  Tensor lr, weight_decay, step;
};
struct StepValues {
  double lr = 1e-3, weight_decay = 0;
  std::int64_t step = 1;
};
/// Numbers that the host computes now and before each replay of a step that is being recorded, for a list as below.
StepNumbers each_step_numbers(std::span<const Tensor> list, std::function<StepValues()> values);

// Options of a rule. lr, weight_decay and step count where no StepNumbers are given.

/// Formula: <etna/optim/sgd.h>. No states.
struct SGDStep {
  double lr = 1e-3, weight_decay = 0;
  std::int64_t step = 1;
};
/// Formula: <etna/optim/sgd.h>. States: the momentum buffer, which may hold anything at step 1.
struct MomentumStep {
  double lr = 1e-3, momentum = 0.9, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  std::int64_t step = 1;
};
/// Formula: <etna/optim/adam.h>. States: first and second moment.
struct AdamStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  std::int64_t step = 1;   ///< corrects the bias of the moments
  bool decoupled = false;  ///< AdamW
};
/// Formula: <etna/optim/adagrad.h>. States: the sum of squared gradients.
struct AdagradStep {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, eps = 1e-10;
  std::int64_t step = 1;
};

/// For each row of the table: sgd_step_, momentum_step_, adam_step_ ... One step of that rule.
/// @param list parameter, gradient, states, and so on for each parameter. Parameters and states are contiguous, states
/// f32 (f64 for f64). @param control as control_step_() leaves it, or undefined
#define ETNA_OPTIMIZER(name, Options, states)                                                         \
  void name##_step_(std::span<const Tensor> list, const StepNumbers& numbers, const Options& options, \
                    const Tensor& control = {});                                                      \
  void name##_step_(std::span<const Tensor> list, const Options& step, const Tensor& control = {});
#include <etna/tensor/ops/optimizer/rules.def>
#undef ETNA_OPTIMIZER

/// The norm of all tensors as one vector. Sums in f64 on the CPU, in f32 blockwise on a GPU.
/// @param order 2, 1 or infinity @return 0-d, f32 (f64 where one of them is)
Tensor global_norm(std::span<const Tensor> tensors, double order = 2);

/// Multiplies every tensor by min(1, max_norm / (norm + 1e-6)). @param norm 0-d, on their device; NaN makes all NaN
void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm);

/// What one pass over all gradients found, for the optimizer's step to read on their device: four f32.
struct StepControl {
  float factor = 1;   ///< that gradients are multiplied by: unscaled and clipped
  float norm = 0;     ///< of the unscaled gradients as one vector, before clipping
  float skipped = 0;  ///< steps so far that were not made
  float skip = 0;     ///< 1: this one is not made
};

/// Fills `control` [4] anew, `skipped` counted on, from gradients that wait for their step.
/// @param loss_scale [3] (update_loss_scale_), or undefined: gradients that are not finite then reach the parameters,
/// to be seen; with it they make the step a skipped one, and are noted in loss_scale
/// @param max_norm the factor keeps the norm at most at this; 0: no bound @param scaled the gradients still hold the
/// loss scale
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
/// The end of a step under loss scaling (Micikevicius et al. 2018). Where a gradient was not finite the scale is
/// multiplied by `backoff`; after `interval` steps in a row without one, by `growth`, unless it would overflow. Clears
/// the note.
/// @param loss_scale [3] f32: the scale, such steps so far, whether a gradient was not finite
void update_loss_scale_(const Tensor& loss_scale, const LossScaleUpdate& update);

}  // namespace etna
