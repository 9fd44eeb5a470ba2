#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/experts.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

struct Mixture {
  std::int64_t rows, width, hidden, experts, chosen;
  DType weights = f32;
  Activation activation = Activation::silu;
};

Sample mixture(const char* name, const Mixture& m) {
  return Sample("expert_feed_forward", name)
      .in({m.rows, m.width})
      .in({m.experts * m.hidden, m.width})
      .constant()
      .in({m.experts * m.hidden, m.width})
      .constant()
      .in({m.experts * m.width, m.hidden})
      .constant()
      .index({m.rows, m.chosen}, 0, static_cast<double>(m.experts))
      .in({m.rows, m.chosen})
      .in_dtypes({f32, f16})
      .looser(8)  // of two products, one behind the other
      .gradients(Gradients::first)
      .calls([=](const TensorList& in) {
        const auto weight = [&](std::size_t i) { return QuantizedTensor::unquantized(in[i].to(m.weights)); };
        return expert_feed_forward(in[0], weight(1), weight(2), weight(3), {in[4], in[5]}, m.activation, m.experts);
      });
}

}  // namespace

std::vector<Sample> samples_in_expert_feed_forward() {
  return {mixture("rows", {3, 8, 6, 4, 2}),
          mixture("prime sizes", {5, 67, 131, 7, 3}),
          mixture("sorted rows", {19, 12, 10, 3, 2, f32, Activation::gelu_tanh}),
          mixture("sorted rows of prime sizes", {23, 37, 41, 5, 3}),
          mixture("weights in f16", {4, 16, 8, 3, 2, f16}),
          mixture("one expert", {11, 8, 12, 1, 1}),
          mixture("experts that nobody chose", {9, 8, 4, 40, 1}),
          mixture("no rows", {0, 16, 8, 4, 2})};
}

}  // namespace etna::conformance
