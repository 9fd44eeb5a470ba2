#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <etna/models/decoder.h>
#include <etna/models/kv_cache.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops/random/random.h>

/// The guesses of a Generator by its model's own head. Internal.
namespace etna::models {

/// Speculative decoding with the model's MTP head. Its keys are one more layer of the model's cache, in the same blocks
/// and at the same positions, so that it has no text of its own to read: it takes the hidden states of all steps and
/// chunks of prompts. Where a step took one token without it, keys of that position are missing; guesses may be wrong.
class MtpDraft {
 public:
  /// @param model with an MTP head, which must outlive this object @param sampling as Draft's
  MtpDraft(const Decoder& model, Device device, std::int64_t slots, std::int64_t guesses, SamplingInputs sampling);

  /// Reads a chunk of a prompt. @param x the last block's output, [1, T, width] @param next [1, T] i32, the tokens
  /// behind @param cache as the model's
  void read(const Tensor& x, const Tensor& next, const DecoderCache& cache) const;
  /// Within a step: takes the rows that slots from `first` on have read, and the tokens that were sampled behind them.
  /// @param x [N, R, width] @param tokens [N, R], where R is at most 1 + guesses
  void take(const Tensor& x, const Tensor& tokens, std::int64_t first = 0);
  /// Reports how many guesses of a slot were right, and so which of the rows is the last one of its text.
  void accept(std::size_t slot, std::int64_t right) { last_[slot] = static_cast<std::int32_t>(right); }
  /// Guesses for all slots, those of free ones are undefined.
  /// @param guesses [slots, guesses] i32, written on the device; the same tensor each time
  /// @param places of the model's next step: the same tensors for one width of the table
  void guess(const Tensor& guesses, bool greedy, std::vector<PagedCache>& layers, const CachePlaces& places);

 private:
  using Step = CapturedFunction<std::function<void()>>;

  void run(Tensor guesses, bool greedy, std::vector<PagedCache>& layers, const CachePlaces& places);

  const Decoder& model_;
  const Device device_;
  const std::int64_t slots_, guesses_;
  const SamplingInputs sampling_;
  std::vector<std::int32_t> last_;       ///< of each slot's rows, the one of its last position that was read
  Tensor hidden_, tokens_, last_there_;  ///< [slots, 1 + guesses, width] f32, [slots, 1 + guesses] and [slots] i32
  std::map<std::pair<bool, std::int64_t>, std::unique_ptr<Step>> steps_;  ///< by greedy and the block table's width
};

}  // namespace etna::models
