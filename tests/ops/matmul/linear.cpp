#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_linear() {
  auto biased = [](const TensorList& in) { return linear(in[0], in[1], in[2]); };
  auto sample = [&](const char* name, Shape x, Shape weight) {
    return Sample("linear", name).in(x, -1, 1).in(weight, -1, 1).in({weight[0]}, -1, 1).calls(biased);
  };
  auto activated = [](const char* name, Activation activation) {
    return Sample("linear", name)
        .in({5, 7}, -1, 1)
        .in({6, 7}, -1, 1)
        .in({6}, -1, 1)
        .calls([activation](const TensorList& in) { return linear(in[0], in[1], in[2], activation); });
  };
  return {
      activated("relu", Activation::relu).gradients(Gradients::first).looser_halves(4),
      activated("gelu", Activation::gelu).in_dtypes({f64, f32}),
      activated("gelu_tanh", Activation::gelu_tanh).in_dtypes({f64, f32}),
      activated("silu", Activation::silu),
      activated("relu_squared", Activation::relu_squared).in_dtypes({f64, f32}),
      activated("hardswish", Activation::hardswish).in_dtypes({f64, f32}),
      Sample("linear", "activated, no rows").in({0, 5}, -1, 1).in({4, 5}, -1, 1).none().calls([](const TensorList& in) {
        return linear(in[0], in[1], in[2], Activation::gelu);
      }),
      sample("rows", {3, 5}, {4, 5}),
      sample("one row", {5}, {4, 5}),
      sample("batch", {2, 3, 5}, {4, 5}),
      sample("no rows", {0, 5}, {4, 5}),
      sample("no inputs", {2, 0}, {4, 0}),
      sample("no outputs", {2, 5}, {0, 5}),
      sample("prime sizes", {13, 7, 67}, {71, 67}),
      Sample("linear", "without bias").in({2, 3, 5}, -1, 1).in({4, 5}, -1, 1).none().calls(biased),
  };
}

}  // namespace etna::conformance
