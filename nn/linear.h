#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// y = x · weightᵀ + bias.
/// weight [out, in] and bias [out] are initialized uniform in ±1/√in (He et al. 2015, with PyTorch's gain).
class Linear : public UnaryModule {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias = true);
  /// @param x [..., in] @return [..., out]
  Tensor forward(const Tensor& x) const override;

  std::string extra_repr() const override;

  Tensor weight, bias;  ///< bias is undefined if left out

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
