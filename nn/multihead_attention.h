#pragma once

#include <etna/nn/linear.h>

namespace etna::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< of the weights
  bool bias = true;
  bool add_bias_kv = false;    ///< one more key and value, learned
  bool add_zero_attn = false;  ///< one more key and value of zeros
  std::int64_t kdim = 0;       ///< size of the keys' features; 0: embed_dim
  std::int64_t vdim = 0;       ///< of the values'
  bool batch_first = false;
};

/// Masks hide what is true, as in PyTorch's module and unlike in scaled_dot_product_attention(); floating ones are
/// added to the scores. A query that may attend to nothing gets 0 (PyTorch: NaN).
struct MultiheadMasks {
  Tensor key_padding_mask = {};  ///< [N, S], or [S] without a batch
  Tensor attn_mask = {};         ///< [L, S] or [N · heads, L, S]
  bool is_causal = false;        ///< hides later keys; needs no attn_mask, and ignores one
};

/// What MultiheadAttention returns.
struct MultiheadOutput {
  Tensor output;   ///< of the query's shape
  Tensor weights;  ///< [N, L, S], or [N, heads, L, S] if not averaged; undefined if not wanted
};

/// Multi-head attention (Vaswani et al. 2017) with PyTorch's parameters: in_proj_weight [3·embed, embed] (or
/// q_proj_weight, k_proj_weight, v_proj_weight if kdim or vdim differ), in_proj_bias [3·embed], out_proj.weight,
/// out_proj.bias, bias_k, bias_v. Where queries, keys and values are one tensor and no weights are wanted, attention
/// reads the result of one projection in place.
class MultiheadAttention : public Module {
 public:
  /// @throws ShapeError unless num_heads divides embed_dim
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions options = {});

  /// @param query [L, N, embed] @param key [S, N, kdim] @param value [S, N, vdim]; [N, L, ...] with batch_first; or all
  /// without N
  /// @param need_weights without them the fused op runs, unless dropout is on
  MultiheadOutput forward(const Tensor& query, const Tensor& key, const Tensor& value, const MultiheadMasks& masks = {},
                          bool need_weights = true, bool average_attn_weights = true) const;
  MultiheadOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const MultiheadMasks& masks = {}, bool need_weights = true,
                             bool average_attn_weights = true) const;

  const std::int64_t embed_dim, num_heads;
  const MultiheadAttentionOptions options;
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  /// @param query, key, value [N, rows, features]
  MultiheadOutput attend(const Tensor& query, const Tensor& key, const Tensor& value, const MultiheadMasks& masks,
                         bool need_weights, bool average) const;
  TensorList project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor mask(const MultiheadMasks& masks, std::int64_t batch, std::int64_t queries, std::int64_t keys) const;
};

}  // namespace etna::nn
