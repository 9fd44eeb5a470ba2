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

/// The draft model of a Generator. Internal.
namespace etna::models {

struct DraftOptions {
  Device device = {};
  std::int64_t slots = 1, guesses = 1, chunk = 512;  ///< as in GeneratorOptions
  std::int64_t room = 0;                             ///< positions in the target model's cache
  DType dtype = f16;                                 ///< of keys and values
};

/// A draft model for speculative decoding: a smaller decoder with a cache of its own that guesses the next tokens
/// (Leviathan et al. 2023, Chen et al. 2023). It samples with the random numbers that the target will use, so that
/// equal probabilities yield equal tokens. Guesses may be wrong: if its context is shorter than a text, it only reads
/// the text's end. Where its layers keep a state, this takes up the tokens of the text only; further steps begin from a
/// copy, which takes up the guesses.
class Draft {
 public:
  /// @param model must outlive this object @param target the decoder that it guesses for
  /// @param sampling the target's sampling inputs, a row for each slot; the same tensors are used throughout
  /// @throws Error if the vocabularies differ, or the draft's context is too short for so many guesses
  Draft(const Decoder& model, const Decoder& target, const DraftOptions& options, SamplingInputs sampling);

  /// Takes room for a text, which the next calls of catch_up() read.
  void join(std::size_t slot, std::span<const std::int32_t> text);
  /// Begins a step, in which all calls of catch_up() together read about DraftOptions::chunk tokens.
  void begin_step() { room_ = options_.chunk; }
  /// Reads the next chunk of the unread tokens of a text but for the last two.
  /// @return false while there are more, and if its cache has no room for the text
  bool catch_up(std::size_t slot, std::span<const std::int32_t> text);
  /// Guesses for all slots for which catch_up() returned true; the guesses of others are undefined.
  /// @param guesses [slots, guesses] i32, written on the device; the same tensor each time
  void guess(const Tensor& guesses, bool greedy);
  /// Reports that the first `right` guesses of a slot were accepted, and one token was sampled after them.
  void accept(std::size_t slot, std::int64_t right);
  /// @param text as far as it was accepted
  void leave(std::size_t slot, std::span<const std::int32_t> text);

  KvCache& cache() { return cache_; }

 private:
  struct Place {
    KvCache::Id cached = -1;  ///< -1: no text
    std::int64_t first = 0;   ///< token of the text at position 0
    std::int64_t read = 0;    ///< positions of the text whose keys and values are cached, and which a state has
    std::int64_t length = 0;  ///< of the text from `first` on while guesses are made for it; else 0
    std::int64_t blocks = 0;  ///< in the block table on the device
  };
  using Step = CapturedFunction<std::function<void()>>;

  void start(std::size_t slot, std::span<const std::int32_t> text);
  bool reserve(std::size_t slot, std::int64_t length);
  bool read(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end);
  bool read_chunk(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end);
  void write_inputs();
  void run(Tensor guesses, bool greedy);
  DecoderCache first_cache(const CachePlaces& places, std::int64_t slot, std::int64_t slots, const Tensor& counts = {});
  void widen(std::int64_t blocks);
  void write_row(std::size_t slot);
  std::int64_t most() const;

  const Decoder& model_;
  const DraftOptions options_;
  const SamplingInputs sampling_;
  KvCache cache_;
  std::vector<Place> places_;
  const std::int64_t first_rows_;     ///< tokens that the first step of all reads
  std::vector<std::int32_t> inputs_;  ///< inputs_there_ for the next step, on the host
  std::int64_t width_ = 0;
  std::int64_t room_ = 0;  ///< tokens that this step may still read
  Tensor table_;
  /// i32: the last tokens of each slot's text; then, for each step, the position of the first token that it reads in
  /// every slot; then how many tokens the first step reads in every slot.
  Tensor inputs_there_;
  Tensor state_rows_, ahead_rows_;  ///< [slots] i32: states of texts, and of guesses; undefined where layers keep none
  std::map<std::pair<bool, std::int64_t>, std::unique_ptr<Step>> steps_;  ///< by greedy and the block table's width
};

}  // namespace etna::models
