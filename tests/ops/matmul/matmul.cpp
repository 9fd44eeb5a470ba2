#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_matmul() {
  auto product = [](const TensorList& in) { return matmul(in[0], in[1]); };
  auto transposed = [](const TensorList& in) { return matmul(in[0].t(), in[1].t()); };
  auto turned_batch = [](const TensorList& in) { return matmul(in[0].transpose(0, 2), in[1].transpose(-2, -1)); };
  auto sample = [&](const char* name, Shape a, Shape b) {
    return Sample("matmul", name).in(a, -1, 1).in(b, -1, 1).calls(product);
  };
  auto slope = [](const char* name, Shape a, Shape b, Shape at, Activation activation) {
    return Sample("matmul_derivative", name)
        .in(a, -1, 1)
        .in(b, -1, 1)
        .in(at, -2, 2)
        .calls([activation](const TensorList& in) { return matmul_derivative(in[0], in[1], in[2], activation); });
  };
  auto wide = [](const TensorList& in) {
    return matmul(in[0], in[1], item_size(in[0].dtype()) == 2 ? f32 : in[0].dtype());
  };
  return {
      Sample("matmul", "sums not rounded").in({3, 70}, -1, 1).in({70, 5}, -1, 1).calls(wide),
      Sample("matmul", "sums not rounded, batch").in({2, 3, 7}, -1, 1).in({7, 5}, -1, 1).calls(wide),
      slope("gelu_tanh", {3, 4}, {4, 5}, {3, 5}, Activation::gelu_tanh),
      slope("gelu", {2, 3, 4}, {4, 5}, {2, 3, 5}, Activation::gelu),
      slope("silu", {3, 2, 4}, {3, 4, 5}, {3, 2, 5}, Activation::silu),
      slope("relu_squared", {3, 4}, {4, 5}, {3, 5}, Activation::relu_squared),
      slope("hardswish", {3, 4}, {4, 5}, {3, 5}, Activation::hardswish).in_dtypes({f64, f32}),
      slope("no activation", {3, 4}, {4, 5}, {3, 5}, Activation::none).gradients(Gradients::compared),
      slope("no inner elements", {3, 0}, {0, 5}, {3, 5}, Activation::silu),
      slope("no rows", {0, 4}, {4, 5}, {0, 5}, Activation::silu),
      slope("prime sizes", {67, 71}, {71, 37}, {67, 37}, Activation::gelu_tanh),
      sample("matrices", {3, 4}, {4, 2}),
      sample("one element", {1, 1}, {1, 1}),
      sample("batch", {2, 3, 4}, {2, 4, 2}),
      sample("broadcast batch", {2, 1, 3, 4}, {3, 4, 2}),
      sample("batch and one matrix", {3, 2, 4}, {4, 3}),
      sample("one matrix and batch", {3, 4}, {2, 4, 2}),
      sample("vectors", {5}, {5}),
      sample("row", {4}, {4, 3}),
      sample("column", {2, 3, 4}, {4}),
      sample("no inner elements", {2, 0}, {0, 3}),
      sample("no rows", {0, 4}, {4, 3}),
      sample("no columns", {2, 4}, {4, 0}),
      sample("no batch", {0, 2, 4}, {4, 3}),
      sample("prime sizes", {67, 131}, {131, 71}),
      Sample("matmul", "transposed views").in({4, 3}, -1, 1).in({2, 4}, -1, 1).calls(transposed),
      Sample("matmul", "three batch dimensions")
          .in({2, 2, 3, 2, 4}, -1, 1)
          .in({3, 2, 2, 5, 4}, -1, 1)
          .calls(turned_batch),
      Sample("matmul", "long sums").in({1031, 5}, -1, 1).in({3, 1031}, -1, 1).calls(transposed).looser(8),
  };
}

}  // namespace etna::conformance
