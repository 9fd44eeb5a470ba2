#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

/// The walk passes f64 to have exact values; the state is f32 whatever it passes.
Tensor state_of(const Tensor& x) { return x.to(f32).clone(); }

/// control: the state after an earlier step; `skipped` counts on from there.
Sample control(const char* name, Shape shape, double max_norm, bool with_scale, bool scaled) {
  Sample s("control_step_", name);
  s.values({4}, {1, 0, 3, 0}).as(f32).dense().constant();
  s.values({3}, {8, 5, 0}).as(f32).dense().constant();
  s.in(shape).in({5});
  return s
      .calls([=](const TensorList& in) {
        Tensor state = state_of(in[0]), scale = with_scale ? state_of(in[1]) : Tensor();
        control_step_(state, scale, std::span(in).subspan(2), max_norm, scaled);
        return with_scale ? TensorList{state, scale} : TensorList{state};
      })
      .gradients(Gradients::none);
}

Sample unscale(const char* name, Shape shape) {
  Sample s("unscale_", name);
  s.values({3}, {8, 5, 0}).as(f32).dense().constant().in(shape).in({5});
  return s
      .calls([](const TensorList& in) {
        TensorList out;
        for (std::size_t i = 1; i < in.size(); ++i) out.push_back(in[i].clone());
        unscale_(out, in[0].to(f32));
        return out;
      })
      .gradients(Gradients::none);
}

Sample step_control_update(const char* name, std::vector<double> state) {
  Sample s("update_loss_scale_", name);
  s.values({3}, std::move(state)).as(f32).dense().constant();
  s.in({0});  // the walk requires an input without elements for every op
  return s
      .calls([](const TensorList& in) {
        Tensor scale = state_of(in[0]);
        update_loss_scale_(scale, {.interval = 6});
        return scale;
      })
      .in_dtypes({f32})
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_step_control() {
  return {control("no bound", {3, 37}, 0, false, false),
          control("bound", {8209}, 0.5, false, false),
          control("bound not met", {41}, 500, false, false),
          control("loss scale", {8209}, 0.25, true, true),
          control("loss scale taken off before", {3, 37}, 2, true, false),
          control("no elements", {0, 3}, 1, true, true),
          unscale("large", {8209}),
          unscale("0-d", {}),
          unscale("no elements", {0, 3}),
          step_control_update("counts", {8, 2, 0}),
          step_control_update("grows", {8, 5, 0}),
          step_control_update("backs off", {8, 5, 1}),
          step_control_update("backs off to its least", {6e-20, 5, 1}),
          step_control_update("does not overflow", {3e38, 5, 0})};
}

}  // namespace etna::conformance
