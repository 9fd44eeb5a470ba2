#pragma once

#include <optional>

#include <etna/nn/module.h>

namespace etna::nn {

/// How a bag's rows become one.
enum class BagMode { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;              ///< the last offset is the end of the last bag, not a beginning
  std::optional<std::int64_t> padding_idx = {};  ///< a row that no bag counts; starts at 0 and gets no gradient
};

/// The sum, mean or maximum of the rows of a table that belong to each bag; 0 for a bag without rows. weight [count,
/// dim] is initialized standard normal.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(std::int64_t count, std::int64_t dim, EmbeddingBagOptions options = {});
  /// @param index [B, N], a bag a row; or [N] with offsets
  /// @param offsets [B], i64 or i32, rising: where each bag begins in `index`, the first at 0. Not read on the host, so
  /// not checked. The maximum of bags with offsets needs B·N·dim elements of memory.
  /// @param per_sample_weights of index's shape: factors of the rows; with sum only
  /// @return [B, dim]
  Tensor forward(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  Tensor operator()(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
  std::string extra_repr() const override;

  Tensor weight;
  EmbeddingBagOptions options;

 protected:
  std::unique_ptr<Module> another() const override {
    return std::make_unique<EmbeddingBag>(weight.size(0), weight.size(1), options);
  }
};

}  // namespace etna::nn
