#pragma once

#include <etna/nn/dropout.h>
#include <etna/nn/linear.h>

namespace etna::nn {

struct AttentionOptions {
  std::int64_t kv_heads = 0;  ///< keys and values shared by groups of heads (Ainslie et al. 2023); 0: as many as heads
  bool bias = true;           ///< in both projections
  double dropout = 0;         ///< of the result, after the output projection
  bool causal = true;         ///< a position attends to itself and the positions before it
};

/// Self-attention (Vaswani et al. 2017): proj(concat over heads of softmax(q·kᵀ/√(dim/heads)) · v), where [q | k | v] =
/// qkv(x).
class MultiHeadAttention : public UnaryModule {
 public:
  /// @throws ShapeError unless heads divides dim and kv_heads divides heads
  MultiHeadAttention(std::int64_t dim, std::int64_t heads, AttentionOptions options = {});
  /// @param x [..., T, dim] @return [..., T, dim]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const std::int64_t heads, kv_heads;
  const bool causal;
  Linear qkv;   ///< dim → dim + 2 · kv_heads · dim/heads
  Linear proj;  ///< dim → dim
  Dropout dropout;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
