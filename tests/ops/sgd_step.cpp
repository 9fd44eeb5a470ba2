#include <conformance/samples.h>
#include <etna/tensor/multi_tensor.h>

namespace etna::conformance {
namespace {

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

/// Two parameters, so that the second does not start where the first does.
Sample sample(const char* name, Shape shape, SGDStep step, std::vector<double> control = {}) {
  Sample s("sgd_step_", name);
  for (const Shape& each : {shape, Shape{5}}) {
    s.in(each).dense().in(each);
    if (step.momentum != 0) s.in(each).dense();
  }
  std::size_t width = step.momentum != 0 ? 3 : 2;
  bool controlled = !control.empty();
  if (controlled) s.values({4}, std::move(control)).as(f32).dense().constant();
  s.calls([=](const TensorList& in) {
    TensorList list, out;
    for (std::size_t i = 0; i + (controlled ? 1 : 0) < in.size(); ++i) {
      std::size_t part = i % width;
      list.push_back(part == 2 ? in[i].to(state_dtype(in[i])).clone() : part == 0 ? in[i].clone() : in[i]);
      if (part != 1) out.push_back(list.back());
    }
    if (controlled) list.push_back(in.back().to(f32));
    sgd_step_(list, step);
    return out;
  });
  return s.gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_sgd_step() {
  return {sample("plain", {3, 37}, {.lr = 0.1}),
          sample("weight decay", {4099}, {.lr = 0.1, .weight_decay = 0.2}),
          sample("momentum", {4099}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.2}),
          sample("first", {31}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .first = true}),
          sample("nesterov", {31, 2}, {.lr = 0.1, .momentum = 0.9, .nesterov = true}),
          sample("controlled", {4099}, {.lr = 0.1, .weight_decay = 0.2}, {0.25, 4, 2, 0}),
          sample("controlled momentum", {41}, {.lr = 0.1, .momentum = 0.9, .nesterov = true}, {0.25, 4, 2, 0}),
          sample("skipped", {41}, {.lr = 0.1, .momentum = 0.9}, {0.25, 4, 2, 1}),
          sample("0-d", {}, {.lr = 0.1, .momentum = 0.9}),
          sample("no elements", {0, 3}, {.lr = 0.1, .momentum = 0.9})};
}

}  // namespace etna::conformance
