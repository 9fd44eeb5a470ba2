#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/models/decoder.h>
#include <etna/models/kv_cache.h>
#include <etna/models/sampling.h>
#include <etna/tensor/capture.h>

namespace etna::models {

class Draft;

struct GeneratorOptions {
  Device device = {};      ///< of the model
  std::int64_t slots = 1;  ///< sequences that are generated concurrently
  /// Speculative decoding: the number of tokens guessed per step, by the draft model or by prompt lookup. All are read
  /// at once, and those that would have been sampled are accepted: the same text in fewer steps if guesses are right.
  std::int64_t guesses = 0;
  /// The draft model: a smaller decoder with the same vocabulary on the same device; must outlive the generator.
  const Decoder* draft = nullptr;
  std::int64_t chunk = 0;  ///< tokens of a prompt that are read at once; 0: 512 on the CPU, 2,048 on other devices
  KvCacheOptions cache = {};
};

struct GenerationOptions {
  std::int64_t max_tokens = 128;
  SamplingOptions sampling = {};
  std::vector<std::int32_t> stop_tokens = {};  ///< end the text and are not part of it
  /// When the context is full, continue without the middle of the text; the first `sinks` tokens are kept.
  bool endless = false;
  std::int64_t sinks = 4;
};

enum class StopReason : std::uint8_t { none, stop_token, max_tokens, context_full, left };
/// "stop token", "length", ...
const char* name(StopReason reason);

/// A generated token and its sequence.
struct GeneratedToken {
  std::int64_t sequence;
  std::int32_t token;
};

/// Counts and times of generation, summed over all sequences.
struct GenerationTimes {
  std::int64_t prompt_tokens = 0, tokens = 0;   ///< tokens read, and generated
  std::int64_t guessed = 0, guessed_right = 0;  ///< tokens guessed, and those accepted
  double prompt_seconds = 0, decode_seconds = 0;
};

/// Generates text with a decoder (continuous batching): reads prompts in chunks, then decodes all sequences together,
/// one token per step. Decoding is a captured step: positions, sampling and the next token are tensors on the device,
/// so the host only reads tokens, one step behind. Sequences join and leave between steps. Not thread-safe.
class Generator {
 public:
  using Id = std::int64_t;

  /// @param model must outlive this object, and be on options.device
  /// @throws Error for an invalid number of slots or guesses or an invalid cache size, and for a draft with another
  /// vocabulary, with too short a context for the guesses, or without guesses
  Generator(const Decoder& model, const GeneratorOptions& options = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Reads a prompt. @param prompt at least one token
  /// @throws Error if no slot is free, the prompt is empty or an option is out of range; IndexError for a token outside
  /// the vocabulary; CacheFull; SuspiciousWeights if the logits after the prompt are NaN, infinite or all equal
  Id join(std::span<const std::int32_t> prompt, const GenerationOptions& options = {});
  bool has_room() const;
  /// Decodes the next token of each running sequence, or several with guesses. Empty once all have ended. A sequence
  /// for which the cache has no free block waits until another one ends.
  /// @throws CacheFull if all sequences wait; call leave() for one of them to continue
  std::vector<GeneratedToken> step();
  /// Why a sequence ended; none while it runs. @throws IndexError for one that never joined
  StopReason stopped(Id sequence) const;
  /// Ends a sequence; does nothing if it has already ended.
  void leave(Id sequence);

  /// Generates one whole text. @param seen is called with each token; returning false ends the text
  StopReason generate(std::span<const std::int32_t> prompt, const GenerationOptions& options,
                      const std::function<bool(std::int32_t)>& seen);

  /// Logits of all positions of a given text, [T, vocabulary]; leaves the cache unchanged.
  /// @throws IndexError for a token outside the vocabulary; CacheFull
  Tensor logits(std::span<const std::int32_t> tokens);

  KvCache& cache() { return cache_; }
  /// The draft model's cache; null without a draft.
  KvCache* draft_cache();
  const GenerationTimes& times() const { return times_; }

 private:
  struct Slot;
  struct Steps;

  Slot* slot_of(Id sequence);
  void launch();
  bool penalizes() const;
  bool can_guess() const;
  std::vector<std::int64_t> find_guesses(std::vector<std::int32_t>& read);
  void check_guesses(bool greedy);
  void guess(std::vector<GeneratedToken>& tokens);
  bool give(Slot& slot, std::int32_t token, std::vector<GeneratedToken>& tokens);
  void finish(Slot& slot, StopReason reason);
  bool is_full(const Slot& slot) const;
  bool waits(const Slot& slot) const;
  void make_room(Slot& slot, std::int64_t rows = 1);
  void read_prompt(Slot& slot, std::span<const std::int32_t> prompt, std::int64_t at);
  void read_again(Slot& slot);
  std::optional<CacheFull> queue_steps();
  bool prepare(Slot& slot);
  void activate(Slot& slot, bool active);
  void take_tokens(std::vector<GeneratedToken>& tokens);
  void write_sampling(const Slot& slot);
  void write_counts(const Slot& slot);
  void write_row(std::size_t slot);
  void widen(std::int64_t blocks);
  Tensor decode();
  void extend_on_host(const Tensor& tokens);
  Tensor extended(const Tensor& tokens);
  Tensor pick(const Tensor& logits, std::int64_t begin, std::int64_t end);

  const Decoder& model_;
  const GeneratorOptions options_;
  KvCache cache_;
  std::vector<Slot> slots_;
  std::vector<StopReason> ended_;  ///< by sequence id; none while it runs
  std::int64_t width_ = 0;
  Tensor tokens_, positions_, active_, table_, numbers_, seeds_, draws_, counts_, bias_;
  Tensor guessed_;  ///< [2, slots, 1 + guesses] i32: the tokens that a step with guesses reads and samples
  std::unique_ptr<Steps> steps_;
  std::unique_ptr<Draft> draft_;
  GenerationTimes times_;
};

}  // namespace etna::models
