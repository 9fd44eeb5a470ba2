#include <etna/nn/activations.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

#define ETNA_ACTIVATION(NAME, RESULT) \
  Tensor NAME::forward(const Tensor& x) const { return RESULT; }
ETNA_ACTIVATION(ReLU, relu(x))
ETNA_ACTIVATION(ReLU6, relu6(x))
ETNA_ACTIVATION(GELU, tanh ? gelu_tanh(x) : gelu(x))
ETNA_ACTIVATION(SiLU, silu(x))
ETNA_ACTIVATION(Mish, mish(x))
ETNA_ACTIVATION(SELU, selu(x))
ETNA_ACTIVATION(Sigmoid, sigmoid(x))
ETNA_ACTIVATION(LogSigmoid, logsigmoid(x))
ETNA_ACTIVATION(Tanh, etna::tanh(x))
ETNA_ACTIVATION(Tanhshrink, tanhshrink(x))
ETNA_ACTIVATION(Softsign, softsign(x))
ETNA_ACTIVATION(Hardsigmoid, hardsigmoid(x))
ETNA_ACTIVATION(Hardswish, hardswish(x))
ETNA_ACTIVATION(LeakyReLU, leaky_relu(x, negative_slope))
ETNA_ACTIVATION(ELU, elu(x, alpha))
ETNA_ACTIVATION(CELU, celu(x, alpha))
ETNA_ACTIVATION(Softshrink, softshrink(x, lambda))
ETNA_ACTIVATION(Hardshrink, hardshrink(x, lambda))
ETNA_ACTIVATION(Hardtanh, hardtanh(x, min_val, max_val))
ETNA_ACTIVATION(Softplus, softplus(x, beta, threshold))
ETNA_ACTIVATION(Threshold, etna::threshold(x, threshold, value))
ETNA_ACTIVATION(RReLU, rrelu(x, lower, upper, training()))
ETNA_ACTIVATION(PReLU, prelu(x, weight))
ETNA_ACTIVATION(GLU, glu(x, dim))
ETNA_ACTIVATION(Softmax, softmax(x, dim))
ETNA_ACTIVATION(Softmin, softmin(x, dim))
ETNA_ACTIVATION(LogSoftmax, log_softmax(x, dim))
#undef ETNA_ACTIVATION

Tensor Softmax2d::forward(const Tensor& x) const {
  if (x.dim() != 3 && x.dim() != 4)
    throw ShapeError(fmt::format("Softmax2d: x is {}; wanted [N, C, H, W] or [C, H, W]", str(x.shape())));
  return softmax(x, -3);
}

PReLU::PReLU(std::int64_t num_parameters, double init)
    : weight(full({checked_size("PReLU", "num_parameters", num_parameters, 1)}, init)) {
  register_parameter("weight", weight);
}

}  // namespace etna::nn
