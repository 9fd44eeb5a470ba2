#pragma once

#include <etna/nn/attention.h>
#include <etna/nn/feed_forward.h>
#include <etna/nn/normalization.h>

namespace etna::nn {

/// One pre-norm layer (Xiong et al. 2020): x ← x + attention(norm1(x)), then x ← x + ffn(norm2(x)). Its parameters are
/// named norm1, qkv, proj, norm2, up and down.
class TransformerBlock : public UnaryModule {
 public:
  /// @param hidden size of the feed-forward layer @param options its dropout applies to both sublayers
  TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t hidden, AttentionOptions options = {});
  /// @param x [..., T, dim] @return [..., T, dim]
  Tensor forward(const Tensor& x) const override;

  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  FeedForward ffn;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
