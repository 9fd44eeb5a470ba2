#pragma once

#include <etna/nn/module.h>

/// Activations as modules, for Sequential. As functions they are gelu(), gelu_tanh(), relu() and silu() of
/// <etna/tensor/ops.h>.
namespace etna::nn {

/// max(x, 0)
class ReLU : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;
};

/// x · Φ(x), Φ the normal distribution (Hendrycks & Gimpel 2016), or with `tanh` its approximation
/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
class GELU : public UnaryModule {
 public:
  explicit GELU(bool tanh = false) : tanh(tanh) {}
  Tensor forward(const Tensor& x) const override;

  bool tanh;
};

/// x · sigmoid(x)
class SiLU : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;
};

}  // namespace etna::nn
