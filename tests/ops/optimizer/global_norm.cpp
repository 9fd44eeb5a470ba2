#include <limits>

#include <conformance/samples.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::conformance {
namespace {

Sample norm(const char* name, Shape shape, double order) {
  Sample s("global_norm", name);
  s.in(shape).distinct().in({5}).distinct();
  if (order != 2) s.away_from({0});
  return s.calls([=](const TensorList& in) { return global_norm(in, order); })
      .gradients(order == 2 ? Gradients::second : Gradients::first);
}

Sample scale(const char* name, Shape shape, double max_norm) {
  Sample s("scale_to_norm_", name);
  s.in({}, 2, 3).in(shape).in({5});
  s.calls([=](const TensorList& in) {
    TensorList out;
    for (std::size_t i = 1; i < in.size(); ++i) out.push_back(in[i].clone());
    scale_to_norm_(out, in[0], max_norm);
    return out;
  });
  return s.gradients(Gradients::none);
}

Sample multiply(const char* name, Shape shape) {
  return Sample("multiply_all", name)
      .in({}, 2, 3)
      .in(shape)
      .in({5})
      .calls([](const TensorList& in) { return multiply_all(std::span(in).subspan(1), in[0]); })
      .gradients(Gradients::second);
}

}  // namespace

std::vector<Sample> samples_in_global_norm() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {norm("two", {3, 37}, 2),          norm("two large", {8209}, 2), norm("one", {41}, 1),
          norm("largest", {41}, kInfinity), norm("0-d", {}, 2),           norm("no elements", {0, 3}, 2),
          scale("down", {8209}, 0.5),       scale("not up", {3, 37}, 50), scale("0-d", {}, 1),
          scale("no elements", {0, 3}, 1),  multiply("large", {8209}),    multiply("0-d", {}),
          multiply("no elements", {0, 3})};
}

}  // namespace etna::conformance
