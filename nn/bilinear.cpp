#include <etna/nn/linear.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, bool with_bias)
    : weight(empty({checked_size("Bilinear", "out", out), checked_size("Bilinear", "in1", in1),
                    checked_size("Bilinear", "in2", in2)})) {
  const double bound = in1 > 0 ? 1 / std::sqrt(static_cast<double>(in1)) : 0;
  init::uniform_(weight, -bound, bound);
  if (with_bias) bias = init::uniform_(empty({out}), -bound, bound);
  register_parameter("weight", &Bilinear::weight);
  register_parameter("bias", &Bilinear::bias);
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) const { return bilinear(a, b, weight, bias); }

Tensor Bilinear::operator()(const Tensor& a, const Tensor& b) const {
  if (!hooked()) return forward(a, b);
  return call_hooked({a, b}, [this](const TensorList& in) { return TensorList{forward(in[0], in[1])}; })[0];
}

std::string Bilinear::extra_repr() const {
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", weight.size(1), weight.size(2),
                     weight.size(0), bias.defined() ? "True" : "False");
}

std::unique_ptr<Module> Bilinear::another() const {
  return std::make_unique<Bilinear>(weight.size(1), weight.size(2), weight.size(0), bias.defined());
}

}  // namespace etna::nn
