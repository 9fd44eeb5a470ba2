#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// y = x / √(mean(x²) + eps) · weight, over the last dimension (Zhang & Sennrich 2019). weight [dim] starts at 1.
class RMSNorm : public UnaryModule {
 public:
  explicit RMSNorm(std::int64_t dim, double eps = 1e-6);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight;
  double eps;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
