#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/models/projection.h>
#include <etna/nn/module.h>
#include <etna/tensor/paged_attention.h>

namespace etna::models {

/// A norm over the last dimension, of either kind.
class Norm : public nn::UnaryModule {
 public:
  Norm(Weights& weights, const std::string& name, NormKind kind, std::int64_t size, double eps, bool bias = false);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const NormKind kind;
  const double eps;
  Tensor weight, bias;
};

/// Where a decoder's layers keep keys and values while it generates.
struct DecoderCache {
  std::vector<PagedCache>* layers = nullptr;
  CachePlaces places;
  /// The longest of the sequences with its new rows, where the host knows it; 0: unknown. Prompts are faster with it.
  std::int64_t longest = 0;
};

/// Causal self-attention with shared keys, rotary positions and what DecoderConfig says.
class DecoderAttention : public nn::Module {
 public:
  DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  /// @param x [B, T, width], normed @return [B, T, width]
  Tensor forward(const Tensor& x) const;
  /// The same for rows behind those in the cache. @param norm applied to x first; null: x is normed
  /// @param residual added to the result, or undefined
  Tensor forward(const Tensor& x, const Norm* norm, const Tensor& residual, const DecoderCache& cache) const;

  Projection query, key, value, output;
  std::unique_ptr<Norm> query_norm, key_norm, sub_norm;  ///< null where the model has none

 private:
  Tensor frequencies_on(Device device) const;
  Tensor rotated(const Tensor& x) const;

  const DecoderConfig& config_;
  const std::int64_t layer_, window_;
  mutable Tensor frequencies_, biases_;  ///< follow x to its device
};

/// down(act(gate(x)) ⊙ up(x)), or down(act(up(x))).
class DecoderFeedForward : public nn::Module {
 public:
  DecoderFeedForward(Weights& weights, const std::string& name, const DecoderConfig& config);
  Tensor forward(const Tensor& x) const;
  /// Without gradients, in few kernels; as DecoderAttention.
  Tensor forward(const Tensor& x, const Norm* norm, const Tensor& residual) const;

  std::unique_ptr<Projection> gate;  ///< null where there is none
  Projection up, down;
  std::unique_ptr<Norm> sub_norm;

 private:
  Tensor activated(const Tensor& x) const;

  const DecoderConfig& config_;
};

class DecoderBlock : public nn::UnaryModule {
 public:
  DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  Tensor forward(const Tensor& x) const override;
  Tensor forward(const Tensor& x, const DecoderCache& cache) const;

  Norm attention_norm;
  DecoderAttention attention;
  std::unique_ptr<Norm> attention_post_norm;
  std::unique_ptr<Norm> ffn_norm;  ///< null in parallel blocks
  DecoderFeedForward ffn;
  std::unique_ptr<Norm> ffn_post_norm;
};

}  // namespace etna::models
