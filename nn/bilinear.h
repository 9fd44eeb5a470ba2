#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// y[o] = a · weight[o] · bᵀ + bias[o]. weight [out, in1, in2] and bias [out] start uniform in ±1/√in1.
class Bilinear : public Module {
 public:
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, bool bias = true);
  /// @param a [..., in1] @param b [..., in2], with the same leading sizes @return [..., out]
  Tensor forward(const Tensor& a, const Tensor& b) const;
  Tensor operator()(const Tensor& a, const Tensor& b) const;
  std::string extra_repr() const override;

  Tensor weight, bias;  ///< bias is undefined if left out

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
