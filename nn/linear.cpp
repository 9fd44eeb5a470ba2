#include <etna/nn/linear.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias)
    : weight(empty({checked_size("Linear", "out", out), checked_size("Linear", "in", in)})) {
  double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  init::uniform_(weight, -bound, bound);
  if (with_bias) bias = init::uniform_(empty({out}), -bound, bound);
  register_parameter("weight", &Linear::weight);
  register_parameter("bias", &Linear::bias);
}

std::string Linear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", weight.size(1), weight.size(0),
                     bias.defined() ? "True" : "False");
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight, bias); }

std::unique_ptr<Module> Linear::another() const {
  return std::make_unique<Linear>(weight.size(1), weight.size(0), bias.defined());
}

}  // namespace etna::nn
