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
  Device device = {};      ///< where the model is
  std::int64_t slots = 1;  ///< sequences that are generated at once
  /// Tokens that are guessed in each step, by the draft or from how the text went on before (prompt look-up). All are
  /// read at once, and those stay that would have been drawn: the same text in fewer steps where guesses are right.
  std::int64_t guesses = 0;
  /// A smaller decoder with the same vocabulary that guesses, on the same device; must outlive the generator.
  const Decoder* draft = nullptr;
  std::int64_t chunk = 0;  ///< tokens of a prompt that are read at once; 0: 512 on the CPU, 2,048 on others
  KvCacheOptions cache = {};
};

struct GenerationOptions {
  std::int64_t max_tokens = 128;
  SamplingOptions sampling = {};
  std::vector<std::int32_t> stop_tokens = {};  ///< end the text and are not part of it
  /// Where the context is full: go on without the middle of the text, keeping `sinks` tokens at its beginning.
  bool endless = false;
  std::int64_t sinks = 4;
};

enum class StopReason : std::uint8_t { none, stop_token, max_tokens, context_full, left };
/// "stop token", "length", ...
const char* name(StopReason reason);

/// A token and the sequence that it continues.
struct GeneratedToken {
  std::int64_t sequence;
  std::int32_t token;
};

/// What generation took, summed over all sequences.
struct GenerationTimes {
  std::int64_t prompt_tokens = 0, tokens = 0;   ///< read, and generated
  std::int64_t guessed = 0, guessed_right = 0;  ///< tokens, by look-up or a draft
  double prompt_seconds = 0, decode_seconds = 0;
};

/// Generates texts with a decoder: reads a prompt in chunks, then decodes all sequences together, one token a step.
/// Decoding is a captured step: positions, sampling and the next token's place are tensors on the device, so the host
/// only reads tokens, a step behind. Sequences join and leave between steps. Not thread-safe.
class Generator {
 public:
  using Id = std::int64_t;

  /// @param model must outlive this object, and be on options.device
  /// @throws Error for slots, guesses or a cache of a size that cannot be, and for a draft with another vocabulary,
  /// with a context too short for the guesses, or without guesses
  Generator(const Decoder& model, const GeneratorOptions& options = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Reads a prompt. @param prompt at least one token
  /// @throws Error if no slot is free, the prompt is empty or an option is out of range; IndexError for a token outside
  /// of the vocabulary;
  /// CacheFull; SuspiciousWeights where the logits behind the prompt are NaN or infinite, or all the same
  Id join(std::span<const std::int32_t> prompt, const GenerationOptions& options = {});
  bool has_room() const;
  /// Decodes: the next token of each sequence that runs, or with guesses several. Empty once all have ended. A sequence
  /// for which the cache has no block waits until another one has ended.
  /// @throws CacheFull where all sequences wait; leave() ends one, then the others go on
  std::vector<GeneratedToken> step();
  /// Why a sequence ended, however long ago; none while it runs. @throws IndexError for one that never joined
  StopReason stopped(Id sequence) const;
  /// Ends a sequence; nothing happens if it has ended.
  void leave(Id sequence);

  /// One text from beginning to end. @param seen is called with each token; false ends the text
  StopReason generate(std::span<const std::int32_t> prompt, const GenerationOptions& options,
                      const std::function<bool(std::int32_t)>& seen);

  /// Logits of all positions of a text that is not generated, [T, vocabulary]; the cache is as before.
  /// @throws IndexError for a token outside of the vocabulary; CacheFull
  Tensor logits(std::span<const std::int32_t> tokens);

  KvCache& cache() { return cache_; }
  /// The draft's own; null without a draft.
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
  Tensor pick(const Tensor& logits, std::int64_t begin, std::int64_t end);

  const Decoder& model_;
  const GeneratorOptions options_;
  KvCache cache_;
  std::vector<Slot> slots_;
  std::vector<StopReason> ended_;  ///< of each sequence by its id; none while it runs
  std::int64_t width_ = 0;
  Tensor tokens_, positions_, active_, table_, numbers_, seeds_, draws_, counts_, bias_;
  Tensor guessed_;  ///< [2, slots, 1 + guesses] i32: what a step with guesses reads, and what it draws
  std::unique_ptr<Steps> steps_;
  std::unique_ptr<Draft> draft_;
  GenerationTimes times_;
};

}  // namespace etna::models
