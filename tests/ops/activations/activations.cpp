#include <conformance/samples.h>
#include <etna/tensor/ops.h>

// Samples of the composed activations. Their values are compared with PyTorch in tests/torch/elementwise_test.cpp.
namespace etna::conformance {
namespace {

using Unary = Tensor (*)(const Tensor&);

void activations_add(std::vector<Sample>& all, const char* name, Unary f, std::vector<double> corners = {},
                     Gradients gradients = Gradients::second) {
  auto call = [f](const TensorList& in) { return f(in[0]); };
  for (const Shape& shape : {Shape{3, 6}, Shape{2, 0}}) {
    all.push_back(Sample(name, numel(shape) > 0 ? "a matrix" : "nothing")
                      .composed()
                      .in(shape, -3, 3)
                      .away_from(corners)
                      .calls(call)
                      .in_dtypes({f64, f32, f16})
                      .gradients(gradients)
                      .looser_halves(4));
  }
}

}  // namespace

std::vector<Sample> samples_in_activations() {
  std::vector<Sample> all;
  activations_add(all, "hardtanh", [](const Tensor& x) { return hardtanh(x, -1, 2); }, {-1, 2});
  activations_add(all, "threshold", [](const Tensor& x) { return threshold(x, 0.5, -2); }, {0.5});
  activations_add(all, "tanhshrink", tanhshrink);
  activations_add(all, "softmin", [](const Tensor& x) { return softmin(x, 0); });
  activations_add(all, "rrelu", [](const Tensor& x) { return rrelu(x); }, {0});
  activations_add(all, "glu", [](const Tensor& x) { return x.size(-1) == 0 ? glu(x) : glu(x, 1); });
  all.push_back(Sample("rrelu", "other slopes")
                    .composed()
                    .in({2, 3, 7}, -3, 3)
                    .away_from({0})
                    .calls([](const TensorList& in) { return rrelu(in[0], 0.05, 0.9); })
                    .in_dtypes({f64, f32, f16})
                    .gradients(Gradients::second)
                    .looser_halves(4));
  all.push_back(Sample("prelu", "a slope per channel")
                    .composed()
                    .in({2, 3, 4}, -3, 3)
                    .away_from({0})
                    .in({3}, 0.1, 0.5)
                    .calls([](const TensorList& in) { return prelu(in[0], in[1]); })
                    .in_dtypes({f64, f32}));
  all.push_back(Sample("prelu", "nothing")
                    .composed()
                    .in({0, 3})
                    .in({1})
                    .calls([](const TensorList& in) { return prelu(in[0], in[1]); })
                    .in_dtypes({f64, f32}));
  return all;
}

}  // namespace etna::conformance
