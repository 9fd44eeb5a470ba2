#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// y = (x - mean(x)) / √(var(x) + eps) · weight + bias, over the last dimension (Ba et al. 2016). weight [dim] starts
/// at 1, bias [dim] at 0.
class LayerNorm : public UnaryModule {
 public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight, bias;
  double eps;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
