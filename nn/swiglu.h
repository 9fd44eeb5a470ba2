#pragma once

#include <etna/nn/linear.h>

namespace etna::nn {

/// w2(silu(w1(x)) · w3(x)) (Shazeer 2020), with the names of Llama's checkpoints.
class SwiGLU : public UnaryModule {
 public:
  SwiGLU(std::int64_t dim, std::int64_t hidden, bool bias = false);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;

  Linear w1;  ///< gate
  Linear w2;  ///< down
  Linear w3;  ///< up

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
