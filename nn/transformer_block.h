#pragma once

#include <etna/nn/attention.h>
#include <etna/nn/feed_forward.h>
#include <etna/nn/layer_norm.h>

namespace etna::nn {

/// One layer with norms before its parts (Xiong et al. 2020): x ← x + attention(norm1(x)), then x ← x + ffn(norm2(x)).
/// Its parameters are named norm1, qkv, proj, norm2, up and down.
class TransformerBlock : public UnaryModule {
 public:
  /// @param hidden of the feed-forward part @param options its dropout is that of both parts
  TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t hidden, AttentionOptions options = {});
  /// @param x [..., T, dim] @return [..., T, dim]
  Tensor forward(const Tensor& x) const override;
  /// The same of a stream, leaving what ffn gives pending for the norm that follows.
  Residual forward(const Residual& r) const;
  /// A block in a row of them. @param x the stream and norm1 of it @return the stream behind the block, and `next` of
  /// it: each part ends with the norm that the next one begins with, in one op
  AddedNorm forward(const AddedNorm& x, const LayerNorm& next) const;

  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  FeedForward ffn;
};

}  // namespace etna::nn
