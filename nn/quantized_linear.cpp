#include <etna/nn/linear.h>

#include <fmt/format.h>

namespace etna::nn {

QuantizedLinear::QuantizedLinear(const QuantizedTensor& weight, const Tensor& given_bias)
    : format(weight.format()), out(weight.size(0)), in(weight.size(-1)), blocks(weight.blocks()) {
  if (weight.shape().rank() != 2)
    throw ShapeError(fmt::format("QuantizedLinear: the weight is {}; wanted a matrix", str(weight.shape())));
  if (given_bias.defined()) {
    if (given_bias.shape() != Shape{out})
      throw ShapeError(fmt::format("QuantizedLinear: the bias is {}; wanted [{}]", str(given_bias.shape()), out));
    bias = given_bias.detach();
  }
  register_buffer("blocks", &QuantizedLinear::blocks);
  if (bias.defined()) register_buffer("bias", &QuantizedLinear::bias);
}

QuantizedLinear::QuantizedLinear(const Linear& layer, const quant::BlockFormat& format, const Tensor& importance)
    : QuantizedLinear(quantize(layer.weight, format, importance), layer.bias) {}

Tensor QuantizedLinear::forward(const Tensor& x) const { return quantized_linear(x, weight(), {.bias = bias}); }

std::string QuantizedLinear::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}, format={}", in, out, bias.defined() ? "True" : "False",
                     format.name);
}

std::unique_ptr<Module> QuantizedLinear::another() const {
  return std::make_unique<QuantizedLinear>(QuantizedTensor(format, {out, in}, blocks.clone()),
                                           bias.defined() ? bias.clone() : bias);
}

}  // namespace etna::nn
