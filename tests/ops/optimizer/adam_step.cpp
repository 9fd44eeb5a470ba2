#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

DType adam_step_state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

/// Two parameters, so that the second starts in the middle of the list. Second moments are never negative.
/// @param control the last input, unless empty
Sample adam_step_sample(const char* name, Shape shape, AdamStep step, std::vector<double> control = {}) {
  Sample s("adam_step_", name);
  for (const Shape& each : {shape, Shape{5}}) s.in(each).dense().in(each).in(each).dense().in(each, 0.1, 2).dense();
  bool controlled = !control.empty();
  if (controlled) s.values({4}, std::move(control)).as(f32).dense().constant();
  s.calls([=](const TensorList& in) {
    TensorList list, out;
    for (std::size_t i = 0; i + (controlled ? 1 : 0) < in.size(); ++i) {
      std::size_t part = i % 4;
      list.push_back(part >= 2 ? in[i].to(adam_step_state_dtype(in[i])).clone() : part == 0 ? in[i].clone() : in[i]);
      if (part != 1) out.push_back(list.back());
    }
    adam_step_(list, step, controlled ? in.back().to(f32) : Tensor());
    return out;
  });
  return s.gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_adam_step() {
  return {adam_step_sample("plain", {3, 37}, {.lr = 0.1}),
          adam_step_sample("weight decay", {4099}, {.lr = 0.1, .beta2 = 0.95, .weight_decay = 0.2, .step = 7}),
          adam_step_sample("decoupled", {4099},
                           {.lr = 0.1, .beta1 = 0.8, .weight_decay = 0.2, .step = 3, .decoupled = true}),
          adam_step_sample("large eps", {31, 2}, {.lr = 0.1, .eps = 0.5, .step = 1000, .decoupled = true}),
          adam_step_sample("controlled", {4099}, {.lr = 0.1, .weight_decay = 0.2, .step = 9, .decoupled = true},
                           {0.25, 4, 0, 0}),
          adam_step_sample("after skipped steps", {41}, {.lr = 0.1, .step = 9}, {0.25, 4, 3, 0}),
          adam_step_sample("long after skipped steps", {41}, {.lr = 0.1, .step = 9000}, {1, 4, 3, 0}),
          adam_step_sample("moments without memory", {41}, {.lr = 0.1, .beta1 = 0, .beta2 = 0, .eps = 0.5, .step = 2}),
          adam_step_sample("long memory", {41}, {.lr = 0.1, .beta1 = 0.99, .beta2 = 0.99999, .eps = 0.5, .step = 2}),
          adam_step_sample("skipped", {41}, {.lr = 0.1, .step = 9}, {0.25, 4, 3, 1}),
          adam_step_sample("0-d", {}, {.lr = 0.1}),
          adam_step_sample("no elements", {0, 3}, {.lr = 0.1})};
}

}  // namespace etna::conformance
