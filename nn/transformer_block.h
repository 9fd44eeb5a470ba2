#pragma once

#include <etna/nn/attention.h>
#include <etna/nn/feed_forward.h>
#include <etna/nn/layer_norm.h>

namespace etna::nn {

/// One pre-norm layer (Xiong et al. 2020): x ← x + attention(norm1(x)), then x ← x + ffn(norm2(x)). Its parameters are
/// named norm1, qkv, proj, norm2, up and down.
class TransformerBlock : public UnaryModule {
 public:
  /// @param hidden size of the feed-forward layer @param options its dropout applies to both sublayers
  TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t hidden, AttentionOptions options = {});
  /// @param x [..., T, dim] @return [..., T, dim]
  Tensor forward(const Tensor& x) const override;
  /// The same on a residual stream; leaves the result of ffn for the following norm to add.
  Residual forward(const Residual& r) const;
  /// A block in a chain of blocks: each sublayer ends with the norm that begins the next one, fused into one op.
  /// @param x the stream and norm1 of it @return the stream after the block and `next` of it
  AddedNorm forward(const AddedNorm& x, const LayerNorm& next) const;

  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  FeedForward ffn;
};

}  // namespace etna::nn
