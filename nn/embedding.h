#pragma once

#include <optional>

#include <etna/nn/module.h>

namespace etna::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< a row that starts at 0 and gets no gradient
};

/// Rows of a table: y[i] = weight[index[i]]. weight [count, dim] is initialized standard normal.
class Embedding : public UnaryModule {
 public:
  /// @throws IndexError for a padding_idx outside [-count, count)
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  /// @param index [...] i64 or i32 in [0, count) @return [..., dim]
  Tensor forward(const Tensor& index) const override;

  std::string extra_repr() const override;

  Tensor weight;
  EmbeddingOptions options;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
