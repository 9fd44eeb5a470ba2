#pragma once

#include <etna/nn/dropout.h>
#include <etna/nn/linear.h>
#include <etna/tensor/ops/activations/activations.h>

namespace etna::nn {

/// y = down(activation(up(x))), followed by dropout.
class FeedForward : public UnaryModule {
 public:
  FeedForward(std::int64_t dim, std::int64_t hidden, double dropout = 0, Activation activation = Activation::gelu_tanh);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;

  Linear up, down;
  Dropout dropout;
  Activation activation;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
