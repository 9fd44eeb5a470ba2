#include <etna/nn/bilinear.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, bool with_bias)
    : weight(empty({out, in1, in2})) {
  const double bound = in1 > 0 ? 1 / std::sqrt(static_cast<double>(in1)) : 0;
  init::uniform_(weight, -bound, bound);
  if (with_bias) bias = init::uniform_(empty({out}), -bound, bound);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) const {
  const std::int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  bool fits = a.dim() >= 1 && a.dim() == b.dim() && a.size(-1) == in1 && b.size(-1) == in2;
  for (int d = 0; fits && d < a.dim() - 1; ++d) fits = a.shape()[d] == b.shape()[d];
  if (!fits) {
    throw ShapeError(fmt::format("Bilinear: got {} and {}; wanted [..., {}] and [..., {}] with the same leading sizes",
                                 str(a.shape()), str(b.shape()), in1, in2));
  }
  Shape shape = a.shape();
  shape.back() = out;
  // One gemm for a · weight[o] of all o; the sum over in2 is a product with b.
  const std::int64_t rows = numel(shape) / std::max<std::int64_t>(1, out);
  const Tensor left = matmul(a.reshape({rows, in1}), weight.permute({1, 0, 2}).reshape({in1, out * in2}));
  Tensor y = matmul(left.reshape({rows, out, in2}), b.reshape({rows, in2, 1})).reshape(shape);
  return bias.defined() ? y + bias : y;
}

Tensor Bilinear::operator()(const Tensor& a, const Tensor& b) const {
  if (!hooked()) return forward(a, b);
  return call_hooked({a, b}, [this](const TensorList& in) { return TensorList{forward(in[0], in[1])}; })[0];
}

std::string Bilinear::extra_repr() const {
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", weight.size(1), weight.size(2),
                     weight.size(0), bias.defined() ? "True" : "False");
}

}  // namespace etna::nn
