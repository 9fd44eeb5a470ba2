#pragma once

#include <etna/models/decoder_block.h>

/// Heads that guess further tokens. Internal.
namespace etna::models {

/// The layer that the block of an MTP head is as: the last one with attention alone. -1: there is none.
std::int64_t mtp_source(const DecoderConfig& config);

/// The design with one more layer of attention, as that: of an MTP head, which has keys in the same cache.
DecoderConfig with_mtp_layer(const DecoderConfig& config);

/// A head that guesses the token behind the next one (multi-token prediction, DeepSeek-V3, 2024): a block over rows of
/// the model's hidden state and the embedded next token, and a norm. Embedding and output are the model's.
class MtpHead : public nn::Module {
 public:
  /// @param config of the model @throws FormatError where no layer has attention alone, with keys of its own, and where
  /// blocks read more than one residual stream
  MtpHead(Weights& weights, const DecoderConfig& config);
  /// Reads positions behind those that the cache has. Without gradients.
  /// @param hidden [B, T, width], of positions: what the model's output reads, or what this returned
  /// @param next [B, T, width], the embedded tokens behind these @param cache of a model with this layer
  /// @return [B, T, width], to be normed for the model's output
  Tensor extend(const Tensor& hidden, const Tensor& next, const DecoderCache& cache) const;

  const DecoderConfig config;  ///< with the head's layer
  const bool reads_normed;     ///< for a further guess it reads its normed result
  Norm next_norm, hidden_norm;
  Projection combine;  ///< of both, the next token first
  DecoderBlock block;
  Norm norm;
};

}  // namespace etna::models
