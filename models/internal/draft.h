#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <etna/models/decoder.h>
#include <etna/models/kv_cache.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops/random/random.h>

/// What a Generator's draft model keeps. Internal.
namespace etna::models {

struct DraftOptions {
  Device device = {};
  std::int64_t slots = 1, guesses = 1, chunk = 512;  ///< as in GeneratorOptions
  std::int64_t room = 0;                             ///< positions that the model's own cache holds
  DType dtype = f16;                                 ///< of keys and values
};

/// A smaller decoder that guesses how texts go on, with a cache of its own (Leviathan et al. 2023, Chen et al. 2023).
/// It draws with the random numbers that the model will draw with, so that equal probabilities give equal tokens. The
/// guesses need not be right: where its context is shorter than a text, it reads the text's end alone.
class Draft {
 public:
  /// @param model must outlive this object @param target the decoder that it guesses for
  /// @param sampling what the target draws with, a row for each slot; the tensors stay the same
  /// @throws Error if the vocabularies differ, or the draft's context is too short for so many guesses
  Draft(const Decoder& model, const Decoder& target, const DraftOptions& options, SamplingInputs sampling);

  /// Reads a text, whose last tokens guess() will read.
  void join(std::size_t slot, std::span<const std::int32_t> text);
  /// Reads what it lacks of a text, up to the last two tokens. @return false if its cache has no room for the text
  bool catch_up(std::size_t slot, std::span<const std::int32_t> text);
  /// Guesses for all slots of which catch_up() has said true; others get any tokens.
  /// @param guesses [slots, guesses] i32, written on the device; the same tensor each time
  void guess(const Tensor& guesses, bool greedy);
  /// So many guesses of a slot were right, and a token was drawn behind them.
  void accept(std::size_t slot, std::int64_t right);
  /// @param text as far as it was accepted
  void leave(std::size_t slot, std::span<const std::int32_t> text);

  KvCache& cache() { return cache_; }

 private:
  struct Place {
    KvCache::Id cached = -1;  ///< -1: no text
    std::int64_t first = 0;   ///< token of the text at position 0
    std::int64_t read = 0;    ///< positions of the text whose keys and values are there
    std::int64_t length = 0;  ///< of the text from `first` on, while it is guessed for; else 0
    std::int64_t blocks = 0;  ///< in the table on the device
  };
  using Step = CapturedFunction<std::function<void()>>;

  void start(std::size_t slot, std::span<const std::int32_t> text);
  bool reserve(std::size_t slot, std::int64_t length);
  void read(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end);
  void widen(std::int64_t blocks);
  void write_row(std::size_t slot);
  std::int64_t most() const;

  const Decoder& model_;
  const DraftOptions options_;
  const SamplingInputs sampling_;
  KvCache cache_;
  std::vector<Place> places_;
  std::vector<std::int32_t> inputs_;  ///< of inputs_there_, as the next step takes them
  std::int64_t width_ = 0;
  Tensor table_;
  /// i32: the last two tokens of each slot's text; then for each step the position of the first token that it reads, of
  /// all slots.
  Tensor inputs_there_;
  std::map<std::pair<bool, std::int64_t>, std::unique_ptr<Step>> steps_;  ///< by greedy and the table's width
};

}  // namespace etna::models
