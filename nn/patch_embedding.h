#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// Images as sequences of patches (Dosovitskiy et al. 2021): one linear layer on each patch × patch square. Named and
/// shaped as a convolution, proj.weight [dim, channels, patch, patch] and proj.bias [dim], and started as one.
class PatchEmbedding : public UnaryModule {
 public:
  PatchEmbedding(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool bias = true);
  /// @param x [N, channels, H, W], whose sides are multiples of the patch @return [N, H/patch · W/patch, dim]
  /// @throws ShapeError
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  struct Projection : Module {
    Tensor weight, bias;  ///< bias is undefined if left out
    Projection(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool bias);
  };
  Projection proj;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
