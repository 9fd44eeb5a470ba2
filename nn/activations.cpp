#include <etna/nn/activations.h>

#include <fmt/format.h>

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

// What follows the result are the constructor's arguments.
#define ETNA_DEFINE(NAME, RESULT, ...)                           \
  Tensor NAME::forward(const Tensor& x) const { return RESULT; } \
  std::unique_ptr<Module> NAME::another() const { return std::make_unique<NAME>(__VA_ARGS__); }
#define ETNA_MODULE(NAME, FUNCTION) ETNA_DEFINE(NAME, FUNCTION(x))
#define ETNA_NO_MODULE
#define ETNA_ACTIVATION(number, name, module, ...) module
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
#undef ETNA_NO_MODULE
#undef ETNA_MODULE
ETNA_DEFINE(ReLU6, relu6(x))
ETNA_DEFINE(GELU, tanh ? gelu_tanh(x) : gelu(x), tanh)
ETNA_DEFINE(Mish, mish(x))
ETNA_DEFINE(SELU, selu(x))
ETNA_DEFINE(Sigmoid, sigmoid(x))
ETNA_DEFINE(LogSigmoid, logsigmoid(x))
ETNA_DEFINE(Tanh, etna::tanh(x))
ETNA_DEFINE(Tanhshrink, tanhshrink(x))
ETNA_DEFINE(Softsign, softsign(x))
ETNA_DEFINE(Hardsigmoid, hardsigmoid(x))
ETNA_DEFINE(LeakyReLU, leaky_relu(x, negative_slope), negative_slope)
ETNA_DEFINE(ELU, elu(x, alpha), alpha)
ETNA_DEFINE(CELU, celu(x, alpha), alpha)
ETNA_DEFINE(Softshrink, softshrink(x, lambda), lambda)
ETNA_DEFINE(Hardshrink, hardshrink(x, lambda), lambda)
ETNA_DEFINE(Hardtanh, hardtanh(x, min_val, max_val), min_val, max_val)
ETNA_DEFINE(Softplus, softplus(x, beta, threshold), beta, threshold)
ETNA_DEFINE(Threshold, etna::threshold(x, threshold, value), threshold, value)
ETNA_DEFINE(RReLU, rrelu(x, lower, upper, training()), lower, upper)
ETNA_DEFINE(PReLU, prelu(x, weight), weight.size(0))
ETNA_DEFINE(GLU, glu(x, dim), dim)
ETNA_DEFINE(Softmax, softmax(x, dim), dim)
ETNA_DEFINE(Softmin, softmin(x, dim), dim)
ETNA_DEFINE(LogSoftmax, log_softmax(x, dim), dim)
#undef ETNA_DEFINE

#define ETNA_REPR(NAME, REPR) \
  std::string NAME::extra_repr() const { return REPR; }
ETNA_REPR(GELU, tanh ? "approximate='tanh'" : "approximate='none'")
ETNA_REPR(LeakyReLU, repr_of("negative_slope", negative_slope))
ETNA_REPR(ELU, repr_of("alpha", alpha))
ETNA_REPR(CELU, repr_of("alpha", alpha))
ETNA_REPR(Softshrink, repr_of(lambda))
ETNA_REPR(Hardshrink, repr_of(lambda))
ETNA_REPR(Hardtanh, repr_of("min_val", min_val) + ", " + repr_of("max_val", max_val))
ETNA_REPR(Softplus, repr_of("beta", beta) + ", " + repr_of("threshold", threshold))
ETNA_REPR(Threshold, repr_of("threshold", threshold) + ", " + repr_of("value", value))
ETNA_REPR(RReLU, repr_of("lower", lower) + ", " + repr_of("upper", upper))
ETNA_REPR(PReLU, fmt::format("num_parameters={}", weight.size(0)))
ETNA_REPR(GLU, fmt::format("dim={}", dim))
ETNA_REPR(Softmax, fmt::format("dim={}", dim))
ETNA_REPR(Softmin, fmt::format("dim={}", dim))
ETNA_REPR(LogSoftmax, fmt::format("dim={}", dim))
#undef ETNA_REPR

Tensor Softmax2d::forward(const Tensor& x) const {
  if (x.dim() != 3 && x.dim() != 4)
    throw ShapeError(fmt::format("Softmax2d: x is {}; wanted [N, C, H, W] or [C, H, W]", str(x.shape())));
  return softmax(x, -3);
}

PReLU::PReLU(std::int64_t num_parameters, double init)
    : weight(full({checked_size("PReLU", "num_parameters", num_parameters, 1)}, init)) {
  register_parameter("weight", &PReLU::weight);
}

GELU::GELU(bool tanh) : tanh(tanh) {}

std::unique_ptr<Module> Softmax2d::another() const { return std::make_unique<Softmax2d>(); }

}  // namespace etna::nn
