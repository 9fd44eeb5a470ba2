#pragma once

#include <etna/nn/containers.h>
#include <etna/nn/dropout.h>
#include <etna/nn/embedding.h>
#include <etna/nn/normalization.h>
#include <etna/nn/transformer_block.h>

namespace etna::nn {

/// Sizes and settings of a LanguageModel.
struct LanguageModelConfig {
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t dim = 128;
  std::int64_t ffn = 512;  ///< hidden size of the feed-forward layers
  std::int64_t seq = 64;   ///< longest sequence: number of learned positions
  std::int64_t vocab = 0;
  double dropout = 0;
  /// Activation checkpointing: training keeps the input of each block only, and computes the rest again in backward.
  bool recompute_blocks = false;
};

/// A decoder like GPT-2 (Radford et al. 2019): token and position embeddings, pre-norm blocks, a final norm, and a head
/// that shares the token embedding. Matrices start normal with standard deviation 0.02, biases at 0, norms at 1.
class LanguageModel : public UnaryModule {
 public:
  explicit LanguageModel(const LanguageModelConfig& config);
  /// @param tokens [B, T] i64 or i32, T ≤ config.seq @return logits [B, T, vocab]
  Tensor forward(const Tensor& tokens) const override;
  /// Mean cross-entropy. @param targets [B, T], -100 at positions to ignore @return 0-d
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  /// The head's input. @return [B, T, dim]
  Tensor hidden(const Tensor& tokens) const;

  const LanguageModelConfig config;
  Embedding wte;  ///< tokens
  Embedding wpe;  ///< positions
  Dropout dropout;
  ModuleList<TransformerBlock> blocks;
  LayerNorm norm;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
