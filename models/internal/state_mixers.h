#pragma once

#include <string>

#include <etna/models/decoder_block.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

/// The parts of blocks that keep a state in place of keys and values. Internal.
namespace etna::models {

/// The places of a layer's states.
struct StatePlaces {
  StateRows inputs, memory;
};

/// The states of a block take up the first rows that the last step held back, if they keep any.
/// @param cache as that step's, with how many of each sequence as `counts`
void take_up_held(const DecoderBlock& block, const DecoderCache& cache);

/// The weights of a depthwise convolution, and its place in a cache.
class StateConvolution : public nn::Module {
 public:
  StateConvolution(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t channels);
  /// @param x [B, T, channels] @param silu applied to the result
  Tensor forward(const Tensor& x, bool silu, const StateRows& places) const;

  Tensor weight, bias;  ///< [channels, kernel], [channels] or undefined
};

/// A gated delta net (Yang et al. 2024): queries, keys and values pass a convolution, queries and keys are divided by
/// their length, and each head of values writes to a matrix by the gated delta rule. The result is normed and gated.
class DeltaMixer : public nn::Module {
 public:
  /// @param config must outlive this
  DeltaMixer(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  /// @param x [B, T, width] @param cache as for DecoderAttention::forward()
  Tensor forward(const Tensor& x, const DecoderCache* cache) const;
  void take_up_held(const DecoderCache& cache) const;

  Projection qkv, gate, beta, decay;
  StateConvolution kernel;
  Tensor log_decay, step_bias;  ///< [heads]
  Norm norm;                    ///< of each head
  Projection output;

 private:
  Tensor attend(const Tensor& rows, const Tensor& decay, const Tensor& beta, const StatePlaces& places) const;

  const DecoderConfig& config_;
  const std::int64_t index_;
};

/// Mamba-2 (Dao & Gu 2024).
class MambaMixer : public nn::Module {
 public:
  /// @param config must outlive this
  MambaMixer(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  /// As DeltaMixer::forward().
  Tensor forward(const Tensor& x, const DecoderCache* cache) const;
  void take_up_held(const DecoderCache& cache) const;

  /// What rows of `input`, and its input, are multiplied by, [rows, 1] or [1]; undefined where all are 1.
  Tensor row_factors() const;

  Projection input;  ///< to the gate, x, B, C and the steps of time
  StateConvolution kernel;
  Tensor log_decay, step_bias, skip;  ///< [heads]
  Owned<Norm> norm;                   ///< null where the result is only gated
  Projection output;

 private:
  Tensor scaled(const Tensor& rows) const;
  Tensor scan(const Tensor& rows, const Tensor& time, const StatePlaces& places) const;
  Tensor gated(const Tensor& y, const Tensor& gate) const;

  const DecoderConfig& config_;
  const std::int64_t index_;
  mutable Tensor scales_;  ///< [rows of input], undefined where all are 1; follows x to its device
};

/// LFM2's layer: a convolution of the product of two projections, times a third.
class ConvolutionMixer : public nn::Module {
 public:
  ConvolutionMixer(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer);
  /// As DeltaMixer::forward().
  Tensor forward(const Tensor& x, const DecoderCache* cache) const;
  void take_up_held(const DecoderCache& cache) const;

  Projection input;
  StateConvolution kernel;
  Projection output;

 private:
  const std::int64_t index_;
};

}  // namespace etna::models
