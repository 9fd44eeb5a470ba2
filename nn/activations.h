#pragma once

#include <etna/nn/module.h>

/// Activations as modules, for Sequential. The function forms are gelu(), gelu_tanh(), relu() and silu() in
/// <etna/tensor/ops.h>.
namespace etna::nn {

/// max(x, 0)
class ReLU : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<ReLU>(); }
};

/// x · Φ(x), where Φ is the normal distribution function (Hendrycks & Gimpel 2016). With `tanh`, the approximation
/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
class GELU : public UnaryModule {
 public:
  explicit GELU(bool tanh = false) : tanh(tanh) {}
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override { return tanh ? "approximate='tanh'" : "approximate='none'"; }

  bool tanh;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<GELU>(tanh); }
};

/// x · sigmoid(x)
class SiLU : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<SiLU>(); }
};

}  // namespace etna::nn
