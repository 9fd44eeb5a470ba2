#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/models/decoder.h>
#include <etna/models/decoder_block.h>
#include <etna/nn/containers.h>

/// Parts that few decoders have. Internal.
namespace etna::models {

/// What images make of a chunk of one sequence's prompt.
struct ImageChunk {
  Tensor is_token;             ///< [1, T, 1] bool; else a row of an image stands there
  Tensor rows;                 ///< [1, T, width]: those rows
  std::vector<Tensor> deep;    ///< [1, T, width] each: added to what the first blocks give
  Tensor pair_positions = {};  ///< [T, R/2] f32: each pair's position for rope; undefined: those of the sequence
  /// [S] i32, of all positions up to the chunk's last: the image that each is of, 0: none. Rows of one image see each
  /// other. Undefined: rows see only those before them.
  Tensor images = {};
  mutable std::map<std::pair<std::int64_t, std::int64_t>, Tensor> sights = {};  ///< those that were asked for

  /// Which of S positions each row sees, [T, S] bool: within the window, of its own image, too.
  /// @param window, chunk as in LayerConfig
  const Tensor& sight(std::int64_t window, std::int64_t chunk) const;
};

/// The inputs of all blocks by token: rows of a table, and what a projection makes of the embedded token.
class LayerInputs : public nn::Module {
 public:
  LayerInputs(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// @param tokens [B, T] @param x the same, embedded, [B, T, width] @return [B, T, layers · size]
  Tensor forward(const Tensor& tokens, const Tensor& x) const;

  Projection table, projection;
  Norm norm;

 private:
  const LayerInputConfig config_;
  const std::int64_t vocabulary_;
};

/// How a block's own input joins the residual stream: norm(projection(act(gate(x)) ⊙ input)).
class BlockInput : public nn::Module {
 public:
  BlockInput(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// @param x [B, T, width] @param input [B, T, size] @return what is added to x
  Tensor forward(const Tensor& x, const Tensor& input, const ProjectionMode& mode) const;

  Projection gate, projection;
  Norm norm;

 private:
  const Activation activation_;
};

/// A low-rank layer beside attention: x + norm(right(left(x))).
class Laurel : public nn::Module {
 public:
  Laurel(Weights& weights, const std::string& name, const DecoderConfig& config);
  Tensor forward(const Tensor& x, const ProjectionMode& mode) const;

  Projection left, right;
  Norm norm;
};

/// A block's mixing of residual streams, with coefficients that a router makes of the computed one.
class StreamMixer : public nn::Module {
 public:
  StreamMixer(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// All streams before the block. @param x [B, T, count · width] @return [B, T, count, width]
  Tensor predicted(const Tensor& x, const ProjectionMode& mode) const;
  /// @param predicted as above @return the stream that the block computes, [B, T, width]
  Tensor active(const Tensor& predicted) const;
  /// All streams behind the block. @param result of the block @return as predicted()
  Tensor corrected(const Tensor& predicted, const Tensor& result, const ProjectionMode& mode) const;
  /// The computed stream as the block's own input reads it.
  Tensor scaled(const Tensor& corrected) const;
  /// Adds to all streams but the first. @return [B, T, count · width]
  Tensor added(const Tensor& corrected, const Tensor& delta) const;

  Projection router;
  Norm router_norm;
  Tensor prediction, correction;  ///< [count³], [count²]
  Tensor scale;                   ///< [width]

 private:
  Tensor mix(const Tensor& x, const Tensor& weights, const ProjectionMode& mode) const;

  const StreamConfig config_;
};

/// Makes streams of the embedded tokens, and one of all streams.
class StreamEnds : public nn::Module {
 public:
  StreamEnds(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// @param x [B, T, width] @return [B, T, count · width]
  Tensor divided(const Tensor& x) const;
  /// @param x [B, T, count · width] @return [B, T, width]
  Tensor joined(const Tensor& x) const;

  nn::ModuleList<Projection> starts, ends;
};

/// Experts that are added to a feed-forward layer of all positions, each behind a norm.
class ExpertsBeside : public nn::Module {
 public:
  /// @param config must outlive this
  ExpertsBeside(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// @param dense the result of the other layer @param x the residual stream, both [B, T, width]
  Tensor forward(const Tensor& dense, const Tensor& x, const ProjectionMode& mode) const;

  DecoderFeedForward ffn;
  Norm dense_norm, norm, post_norm;
  Tensor router_scale;  ///< [width]
  Tensor factors;       ///< [experts]
};

/// Whether a decoder's weight is a matrix of experts: "blocks.3.ffn.up.weight" of a layer that has some.
bool is_expert_matrix(const DecoderConfig& config, const std::string& name);
/// Whether the experts of some block are on the CPU, and the block is not.
bool has_host_experts(const Decoder& decoder);

}  // namespace etna::models
