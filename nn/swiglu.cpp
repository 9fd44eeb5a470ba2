#include <etna/nn/linear.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::nn {

SwiGLU::SwiGLU(std::int64_t dim, std::int64_t hidden, bool bias)
    : w1(dim, hidden, bias), w2(hidden, dim, bias), w3(dim, hidden, bias) {
  register_module("w1", w1);
  register_module("w2", w2);
  register_module("w3", w3);
}

Tensor SwiGLU::forward(const Tensor& x) const { return w2(swiglu(w1(x), w3(x))); }

std::unique_ptr<Module> SwiGLU::another() const {
  return std::make_unique<SwiGLU>(w1.weight.size(1), w1.weight.size(0), w1.bias.defined());
}

}  // namespace etna::nn
