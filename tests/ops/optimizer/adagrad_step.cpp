#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

/// Two parameters, so that the second starts in the middle of the list. Sums of squares are never negative.
/// @param control the last input, unless empty
Sample adagrad_step_sample(const char* name, Shape shape, AdagradStep step, std::vector<double> control = {}) {
  Sample s("adagrad_step_", name);
  for (const Shape& each : {shape, Shape{5}}) s.in(each).dense().in(each).in(each, 0.1, 2).dense();
  bool controlled = !control.empty();
  if (controlled) s.values({4}, std::move(control)).as(f32).dense().constant();
  s.calls([=](const TensorList& in) {
    TensorList list, out;
    for (std::size_t i = 0; i + (controlled ? 1 : 0) < in.size(); ++i) {
      std::size_t part = i % 3;
      DType state = in[i].dtype() == f64 ? f64 : f32;
      list.push_back(part == 2 ? in[i].to(state).clone() : part == 0 ? in[i].clone() : in[i]);
      if (part != 1) out.push_back(list.back());
    }
    adagrad_step_(list, step, controlled ? in.back().to(f32) : Tensor());
    return out;
  });
  return s.gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_adagrad_step() {
  return {adagrad_step_sample("plain", {3, 37}, {.lr = 0.1}),
          adagrad_step_sample("weight decay", {4099}, {.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.2, .step = 7}),
          adagrad_step_sample("controlled", {41}, {.lr = 0.1, .lr_decay = 0.1, .step = 9}, {0.25, 4, 3, 0}),
          adagrad_step_sample("skipped", {41}, {.lr = 0.1, .step = 9}, {0.25, 4, 3, 1}),
          adagrad_step_sample("0-d", {}, {.lr = 0.1}),
          adagrad_step_sample("no elements", {0, 3}, {.lr = 0.1})};
}

}  // namespace etna::conformance
