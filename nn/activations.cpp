#include <etna/nn/activations.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

Tensor ReLU::forward(const Tensor& x) const { return relu(x); }
Tensor GELU::forward(const Tensor& x) const { return tanh ? gelu_tanh(x) : gelu(x); }
Tensor SiLU::forward(const Tensor& x) const { return silu(x); }

}  // namespace etna::nn
