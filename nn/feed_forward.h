#pragma once

#include <etna/nn/dropout.h>
#include <etna/nn/linear.h>

namespace etna::nn {

/// y = down(gelu_tanh(up(x))), followed by dropout.
class FeedForward : public UnaryModule {
 public:
  FeedForward(std::int64_t dim, std::int64_t hidden, double dropout = 0);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;

  Linear up, down;
  Dropout dropout;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
