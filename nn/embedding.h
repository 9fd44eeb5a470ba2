#pragma once

#include <etna/nn/module.h>

namespace etna::nn {

/// Rows of a table: y[i] = weight[index[i]]. weight [count, dim] is initialized standard normal.
class Embedding : public UnaryModule {
 public:
  Embedding(std::int64_t count, std::int64_t dim);
  /// @param index [...] i64 or i32 in [0, count) @return [..., dim]
  Tensor forward(const Tensor& index) const override;

  std::string extra_repr() const override;

  Tensor weight;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
