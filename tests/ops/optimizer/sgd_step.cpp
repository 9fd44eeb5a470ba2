#include <type_traits>

#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

DType sgd_step_state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

/// Inputs of a step for two parameters, so that the second starts in the middle of the list, and the call to make with
/// them.
template <typename Step>
Sample sgd_step_sample(const char* op, const char* name, std::size_t width, Shape shape, Step step,
                       std::vector<double> control) {
  Sample s(op, name);
  for (const Shape& each : {shape, Shape{5}}) {
    s.in(each).dense().in(each);
    if (width > 2) s.in(each).dense();
  }
  bool controlled = !control.empty();
  if (controlled) s.values({4}, std::move(control)).as(f32).dense().constant();
  s.calls([=](const TensorList& in) {
    TensorList list, out;
    for (std::size_t i = 0; i + (controlled ? 1 : 0) < in.size(); ++i) {
      std::size_t part = i % width;
      list.push_back(part == 2 ? in[i].to(sgd_step_state_dtype(in[i])).clone() : part == 0 ? in[i].clone() : in[i]);
      if (part != 1) out.push_back(list.back());
    }
    Tensor given = controlled ? in.back().to(f32) : Tensor();
    if constexpr (std::is_same_v<Step, SGDStep>)
      sgd_step_(list, step, given);
    else
      momentum_step_(list, step, given);
    return out;
  });
  return s.gradients(Gradients::none);
}

Sample sgd_step_plain(const char* name, Shape shape, SGDStep step, std::vector<double> control = {}) {
  return sgd_step_sample("sgd_step_", name, 2, shape, step, std::move(control));
}
Sample momentum(const char* name, Shape shape, MomentumStep step, std::vector<double> control = {}) {
  return sgd_step_sample("momentum_step_", name, 3, shape, step, std::move(control));
}

}  // namespace

std::vector<Sample> samples_in_sgd_step() {
  return {sgd_step_plain("plain", {3, 37}, {.lr = 0.1}),
          sgd_step_plain("weight decay", {4099}, {.lr = 0.1, .weight_decay = 0.2}),
          sgd_step_plain("controlled", {4099}, {.lr = 0.1, .weight_decay = 0.2}, {0.25, 4, 2, 0}),
          sgd_step_plain("skipped", {41}, {.lr = 0.1}, {0.25, 4, 2, 1}),
          sgd_step_plain("0-d", {}, {.lr = 0.1}),
          sgd_step_plain("no elements", {0, 3}, {.lr = 0.1}),
          momentum("momentum", {4099}, {.lr = 0.1, .dampening = 0.1, .weight_decay = 0.2, .step = 2}),
          momentum("first", {31}, {.lr = 0.1, .dampening = 0.1}),
          momentum("nesterov", {31, 2}, {.lr = 0.1, .nesterov = true, .step = 2}),
          momentum("first after skipped ones", {41}, {.lr = 0.1, .dampening = 0.1, .step = 3}, {0.25, 4, 2, 0}),
          momentum("controlled", {41}, {.lr = 0.1, .nesterov = true, .step = 9}, {0.25, 4, 2, 0}),
          momentum("skipped", {41}, {.lr = 0.1, .step = 9}, {0.25, 4, 2, 1}),
          momentum("0-d", {}, {.lr = 0.1, .step = 2}),
          momentum("no elements", {0, 3}, {.lr = 0.1, .step = 2})};
}

}  // namespace etna::conformance
