#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <etna/device/kernel.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

/// The code that all optimizer steps share: everything except the rule. Inputs are lr, weight_decay, step, momentum, a
/// control or undefined, then for each parameter the parameter, its gradient and its states.
namespace etna::optimizer {

/// f64 for an f64 parameter, else f32.
DType state_dtype(const Tensor& parameter);

/// The inputs from which a rule computes its numbers.
template <typename T>
struct RuleInputs {
  T factor, lr, weight_decay, step, momentum, log_momentum, one_minus_momentum;
};

/// The interface between a rule and the step kernels.
struct StepRule {
  std::size_t states;
  const gpu::Shader* shader;
  /// Constants from the options, in the order in which the shader declares them.
  std::vector<float> (*constants)(const Attrs&);
  /// All numbers, in the order of the rule's each().
  std::vector<double> (*numbers)(const Attrs&, const RuleInputs<double>& in);
  void (*update_f32)(const float* numbers, bool first, float* x, const float* gradient, float* const* states,
                     std::int64_t n);
  void (*update_f64)(const double* numbers, bool first, double* x, const double* gradient, double* const* states,
                     std::int64_t n);
  /// The update of one parameter, composed of base ops: replaces the handles x and states. @param numbers 0-d
  std::vector<Tensor> (*composed_numbers)(const Attrs&, const RuleInputs<Tensor>& in);
  void (*compose)(const std::vector<Tensor>& numbers, const Tensor& first, Tensor& x, const Tensor& gradient,
                  Tensor* states);
};

/// Checks the inputs. The outputs are the parameters and states.
std::vector<OutputSpec> infer_step(const OpCall& call, const StepRule& rule);
void step_cpu(const OpCall& call, const StepRule& rule);
/// Steps in one dispatch. Returns false if any tensor is f64, for which there is no GPU kernel.
bool step_gpu(const OpCall& call, const StepRule& rule);
TensorList step_reference(const OpCall& call, const StepRule& rule);

/// The op's inputs in order.
TensorList step_inputs(std::span<const Tensor> list, const StepNumbers& numbers, const Tensor& control);

}  // namespace etna::optimizer
