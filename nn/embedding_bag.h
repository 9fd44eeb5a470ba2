#pragma once

#include <etna/nn/module.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna::nn {

using etna::BagMode;
using etna::EmbeddingBagOptions;

/// embedding_bag() with its table and settings. weight [count, dim] is initialized standard normal; the row padding_idx
/// starts at 0.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(std::int64_t count, std::int64_t dim, EmbeddingBagOptions options = {});
  /// @return [B, dim]
  Tensor forward(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  Tensor operator()(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  std::string extra_repr() const override;

  Tensor weight;
  EmbeddingBagOptions options;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
