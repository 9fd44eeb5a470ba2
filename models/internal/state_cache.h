#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/models/decoder_block.h>

/// The states of layers that keep one in place of keys and values. Internal.
namespace etna::models {

/// What a layer keeps of what a sequence has read, in rows for several sequences.
struct LayerState {
  Tensor inputs;  ///< [S, kernel, channels] f32: the convolution's last inputs; undefined where nothing is kept
  Tensor memory;  ///< [S, heads, key_size, value_size] f32; undefined where the convolution is all
  /// [B, T, ...] f32: what the state would take up of a step, which may have read wrong guesses. The state stays as it
  /// is until take_up_held(). Undefined: it takes up each step at once.
  Tensor held = {};
};

/// The same states for steps of B sequences of T tokens that may be wrong guesses.
std::vector<LayerState> holding_states(const DecoderConfig& config, const LayerState* states, std::int64_t sequences,
                                       std::int64_t tokens);
/// Bytes of what they hold of so many tokens, in all layers.
std::uint64_t held_bytes(const DecoderConfig& config, std::int64_t tokens);

/// Copies rows of the states of layers on the device, all at once. @param from, to [N] i32, the latter all different
void copy_states(std::span<LayerState> layers, const Tensor& from, const Tensor& to);

/// A number of rows, in all layers of a decoder. A sequence has one, and so has a prefix that others may reuse.
class StateCache {
 public:
  /// @param host_layers the first layers, whose states are on the CPU
  StateCache(const DecoderConfig& config, Device device, std::int64_t rows, std::int64_t host_layers);

  /// A free row; -1 where there is none.
  std::int32_t take();
  void give_back(std::int32_t row) { free_.push_back(row); }
  /// Copies rows on the device, all at once.
  void copy(std::span<const std::int32_t> from, std::span<const std::int32_t> to);
  /// Of all layers, in order. They stay where they are.
  LayerState* layers() { return layers_.data(); }
  std::int64_t rows() const { return rows_; }
  /// Of all rows.
  static std::uint64_t bytes(const DecoderConfig& config, std::int64_t rows);

 private:
  const std::int64_t rows_;
  std::vector<LayerState> layers_;
  std::vector<std::int32_t> free_;
};

}  // namespace etna::models
