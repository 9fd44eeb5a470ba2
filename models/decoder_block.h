#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/models/projection.h>
#include <etna/nn/module.h>
#include <etna/tensor/ops/paged_attention/paged_attention.h>
#include <etna/tensor/quant/rounded_rows.h>

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

/// Rows on their way from one product to the next.
struct DecoderRows {
  Tensor x;                  ///< [B, T, width]
  RoundedRows rounded = {};  ///< the same for the norm that comes next, where a product has rounded them
};

/// What a layer leaves behind for the next one.
struct NextNorm {
  const Norm* norm = nullptr;        ///< that the result meets next; null: unknown
  std::optional<DType> rounds = {};  ///< what the product behind that norm takes rows rounded to
};

/// Causal self-attention with shared keys, rotary positions and what DecoderConfig says.
class DecoderAttention : public nn::Module {
 public:
  DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  /// @param x [B, T, width], normed @return [B, T, width]
  Tensor forward(const Tensor& x) const;
  /// The same for rows behind those in the cache. @param norm applied to x first; null: x is normed
  /// @param residual added to the result, or undefined
  DecoderRows forward(const DecoderRows& in, const Norm* norm, const Tensor& residual, const DecoderCache& cache,
                      const NextNorm& next = {}) const;
  /// What rows of the first norm are best rounded to, if to anything.
  std::optional<DType> takes_rounded(Device device, std::int64_t rows) const;

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
  DecoderRows forward(const DecoderRows& in, const Norm* norm, const Tensor& residual, const NextNorm& next = {}) const;
  std::optional<DType> takes_rounded(Device device, std::int64_t rows) const;

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
  /// @param next the block behind this one, or null
  DecoderRows forward(const DecoderRows& in, const DecoderCache& cache, const DecoderBlock* next) const;

  Norm attention_norm;
  DecoderAttention attention;
  std::unique_ptr<Norm> attention_post_norm;
  std::unique_ptr<Norm> ffn_norm;  ///< null in parallel blocks
  DecoderFeedForward ffn;
  std::unique_ptr<Norm> ffn_post_norm;
};

}  // namespace etna::models
