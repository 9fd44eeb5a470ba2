#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <etna/device/kernel.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/op.h>

/// What the steps of all optimizers share: everything but the rule. Inputs are lr, weight_decay, step, a control or
/// none, then for each parameter itself, its gradient and its states.
namespace etna::multi_tensor {

/// f64 for an f64 parameter, else f32.
DType state_dtype(const Tensor& parameter);

/// How kernels get at one rule.
struct StepRule {
  std::size_t states;
  const gpu::Shader* shader;
  /// Constants of the options, as the shader declares them.
  std::vector<float> (*constants)(const Attrs&);
  /// All numbers, in the order of the rule's each().
  std::vector<double> (*numbers)(const Attrs&, double factor, double lr, double weight_decay, double step);
  void (*update_f32)(const float* numbers, bool first, float* x, const float* gradient, float* const* states,
                     std::int64_t n);
  void (*update_f64)(const double* numbers, bool first, double* x, const double* gradient, double* const* states,
                     std::int64_t n);
  /// The same composed of base ops, for one parameter: changes the handles x and states. @param numbers 0-d
  std::vector<Tensor> (*composed_numbers)(const Attrs&, const Tensor& factor, const StepNumbers& step);
  void (*compose)(const std::vector<Tensor>& numbers, const Tensor& first, Tensor& x, const Tensor& gradient,
                  Tensor* states);
};

/// Checks the inputs; parameters and states are outputs.
std::vector<OutputSpec> infer_step(const OpCall& call, const StepRule& rule);
void step_cpu(const OpCall& call, const StepRule& rule);
/// One dispatch. False where something is f64, which no GPU kernel steps.
bool step_gpu(const OpCall& call, const StepRule& rule);
TensorList step_reference(const OpCall& call, const StepRule& rule);

/// The inputs in their order.
TensorList step_inputs(std::span<const Tensor> list, const StepNumbers& numbers, const Tensor& control);

}  // namespace etna::multi_tensor
