#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <etna/tensor/tensor.h>

/// Ops over many tensors at once, for optimizers. Each reads its tensors once; on a GPU it is one dispatch, or two for
/// global_norm. They change tensors in place and record no gradient: call them under NoGrad.
namespace etna {

/// The numbers of an optimizer step that may change every step: 0-d each, f32 on a GPU, f64 on the CPU. `step` counts
/// from 1; at step 1 the states do not hold anything yet. Steps that a control counts as skipped are subtracted.
struct StepNumbers {
  Tensor lr, weight_decay, step;
  Tensor momentum;  ///< [3]: the momentum, or β₁, its logarithm, and 1 - β₁, which f32 could not compute from β₁
};
struct StepValues {
  double lr = 1e-3, weight_decay = 0;
  std::int64_t step = 1;
  double momentum = 0;  ///< or β₁; ignored by rules without either
};
/// StepNumbers that the host computes now and, while a step is captured, again before each replay. @param list as below
StepNumbers each_step_numbers(std::span<const Tensor> list, std::function<StepValues()> values);

// Options of each rule. lr, weight_decay, step, and momentum or beta1 are used only if no StepNumbers are given. If
// `maximize` is set, a step ascends instead of descending.
#define ETNA_OPTIONS
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIONS

/// One step of each rule in the table: sgd_step_, momentum_step_, adam_step_ ...
/// @param list parameter, gradient, states; then the same for the next parameter. Parameters and states are contiguous;
/// states are f32 (f64 for f64)
/// @param control filled by control_step_(), or undefined
#define ETNA_OPTIMIZER(name, Options, states)                                                         \
  void name##_step_(std::span<const Tensor> list, const StepNumbers& numbers, const Options& options, \
                    const Tensor& control = {});                                                      \
  void name##_step_(std::span<const Tensor> list, const Options& step, const Tensor& control = {});
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

/// The norm of all tensors taken as one vector. The CPU sums in f64, a GPU in f32 chunk by chunk.
/// @param order 2, 1 or infinity @return 0-d, f32 (f64 if one of the tensors is)
Tensor global_norm(std::span<const Tensor> tensors, double order = 2);

/// Multiplies every tensor by min(1, max_norm / (norm + 1e-6)). @param norm 0-d, on the same device; NaN makes all
/// elements NaN
void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm);

/// The results of one pass over all gradients; the optimizer's step reads them on the device. Four f32.
struct StepControl {
  float factor = 1;   ///< factor of the gradients: undoes the loss scale and clips
  float norm = 0;     ///< norm of the unscaled gradients as one vector, before clipping
  float skipped = 0;  ///< number of steps skipped so far
  float skip = 0;     ///< 1: skip this step
};

/// Fills `control` [4] from the gradients of the coming step; keeps counting `skipped`.
/// @param loss_scale [3] (update_loss_scale_), or undefined. With it, a step whose gradients are not finite is skipped
/// and recorded in loss_scale. Without it, such gradients reach the parameters and are visible there.
/// @param max_norm the factor keeps the norm at or below this; 0: no bound
/// @param scaled true: the gradients still contain the loss scale
void control_step_(const Tensor& control, const Tensor& loss_scale, std::span<const Tensor> gradients, double max_norm,
                   bool scaled);

/// Divides every tensor by the loss scale. @param loss_scale [3]
void unscale_(std::span<const Tensor> tensors, const Tensor& loss_scale);

/// Multiplies every tensor by a number on their device. @param factor 0-d f32 (f64 if one of the tensors is)
std::vector<Tensor> multiply_all(std::span<const Tensor> tensors, const Tensor& factor);

/// The least loss scale: gradients times a smaller one would leave the normal numbers of f32.
inline constexpr float kLeastLossScale = 0x1p-64f;

struct LossScaleAttrs {
  double growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};
/// Ends a step under loss scaling (Micikevicius et al. 2018). If a gradient was not finite, multiplies the scale by
/// `backoff`, but not below kLeastLossScale. After `interval` finite steps in a row, multiplies it by `growth`, unless
/// it would overflow. Clears the flag.
/// @param loss_scale [3] f32: the scale, the number of finite steps in a row, and a flag that is set if a gradient was
/// not finite
void update_loss_scale_(const Tensor& loss_scale, const LossScaleAttrs& update);

}  // namespace etna
