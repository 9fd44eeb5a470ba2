#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

template <typename Step>
using StepFunction = void (*)(std::span<const Tensor>, const Step&, const Tensor&);

/// Two parameters, so that the second starts in the middle of the list. States are positive, as sums of squares are.
/// @param states tensors per parameter besides itself and its gradient @param control the last input, unless empty
template <typename Step>
Sample rules_sample(const char* op, const char* name, StepFunction<Step> function, std::size_t states, Shape shape,
                    Step step, std::vector<double> control = {}) {
  Sample s(op, name);
  for (const Shape& each : {shape, Shape{5}}) {
    s.in(each).dense().in(each);
    for (std::size_t k = 0; k < states; ++k) s.in(each, 0.5, 2).dense();
  }
  const bool controlled = !control.empty();
  if (controlled) s.values({4}, std::move(control)).as(f32).dense().constant();
  s.calls([=](const TensorList& in) {
    TensorList list, out;
    for (std::size_t i = 0; i + (controlled ? 1 : 0) < in.size(); ++i) {
      const std::size_t part = i % (2 + states);
      const DType state = in[i].dtype() == f64 ? f64 : f32;
      list.push_back(part >= 2 ? in[i].to(state).clone() : part == 0 ? in[i].clone() : in[i]);
      if (part != 1) out.push_back(list.back());
    }
    function(list, step, controlled ? in.back().to(f32) : Tensor());
    return out;
  });
  return s.gradients(Gradients::none);
}

/// A step in the middle of training after skipped ones, the first step, and a parameter without elements.
template <typename Step>
void rules_add(std::vector<Sample>& all, const char* op, StepFunction<Step> function, std::size_t states, Step step) {
  step.step = 12;
  all.push_back(rules_sample<Step>(op, "controlled", function, states, {3, 37}, step, {0.25, 4, 3, 0}));
  step.step = 1;
  all.push_back(rules_sample<Step>(op, "first", function, states, {4099}, step));
  all.push_back(rules_sample<Step>(op, "no elements", function, states, {0, 3}, step));
}

}  // namespace

std::vector<Sample> samples_in_rules() {
  std::vector<Sample> all;
  rules_add<AdamStep>(all, "amsgrad_step_", amsgrad_step_, 3, {.lr = 0.1, .weight_decay = 0.2, .maximize = true});
  rules_add<NAdamStep>(all, "nadam_step_", nadam_step_, 2, {.lr = 0.1, .weight_decay = 0.2});
  rules_add<AdamStep>(all, "radam_step_", radam_step_, 2,
                      {.lr = 0.1, .beta2 = 0.9, .weight_decay = 0.2, .decoupled = true});
  rules_add<AdEMAMixStep>(all, "ademamix_step_", ademamix_step_, 3,
                          {.lr = 0.1, .beta3 = 0.99, .weight_decay = 0.2, .warmup = 20, .maximize = true});
  rules_add<AdamaxStep>(all, "adamax_step_", adamax_step_, 2, {.lr = 0.1, .weight_decay = 0.2});
  rules_add<AdadeltaStep>(all, "adadelta_step_", adadelta_step_, 2, {.lr = 0.1, .weight_decay = 0.2});
  rules_add<RMSpropStep>(all, "rmsprop_step_", rmsprop_step_, 1, {.lr = 0.1, .weight_decay = 0.2, .maximize = true});
  rules_add<RMSpropStep>(all, "rmsprop_momentum_step_", rmsprop_momentum_step_, 2, {.lr = 0.1, .momentum = 0.9});
  rules_add<RMSpropStep>(all, "rmsprop_centered_step_", rmsprop_centered_step_, 2,
                         {.lr = 0.1, .alpha = 0.7, .eps = 0.5});
  rules_add<RMSpropStep>(all, "rmsprop_centered_momentum_step_", rmsprop_centered_momentum_step_, 3,
                         {.lr = 0.1, .alpha = 0.7, .eps = 0.5, .momentum = 0.9});
  rules_add<ASGDStep>(all, "asgd_step_", asgd_step_, 1, {.lr = 0.1, .lambd = 0.1, .t0 = 2, .weight_decay = 0.2});
  rules_add<RpropStep>(all, "rprop_step_", rprop_step_, 2, {.lr = 0.1, .step_max = 1.5});
  rules_add<LionStep>(all, "lion_step_", lion_step_, 1, {.lr = 0.1, .weight_decay = 0.2});
  rules_add<AverageStep>(all, "average_step_", average_step_, 0, {.decay = 0.9});
  return all;
}

}  // namespace etna::conformance
