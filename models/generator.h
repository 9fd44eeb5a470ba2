#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/models/decoder.h>
#include <etna/models/kv_cache.h>
#include <etna/models/sampling.h>
#include <etna/tensor/capture.h>

namespace etna::models {

class CallReader;
class Draft;
class MtpDraft;
class TextReading;
class TokenGrammar;
enum class RankCall : std::uint8_t;
struct StepKind;

struct GeneratorOptions {
  Device device = {};      ///< of the model
  std::int64_t slots = 1;  ///< sequences that are generated concurrently
  /// Speculative decoding: the number of tokens guessed per step, by the draft model or by prompt lookup. All are read
  /// at once, and those that would have been sampled are accepted: the same text in fewer steps if guesses are right.
  std::int64_t guesses = 0;
  /// The draft model: a smaller decoder with the same vocabulary on the same device; must outlive the generator.
  const Decoder* draft = nullptr;
  /// Guesses are those of the model's own head for further tokens (LoadOptions::mtp).
  bool mtp = false;
  /// Each step computes all slots, whoever runs: a sequence's numbers then do not depend on how many others run, to the
  /// last bit. Else it computes the first slots that are in use, 1, 2, 4, …
  bool all_slots = false;
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
  /// The form that the text must have: tokens that cannot continue it are not sampled. Sequences may share a grammar.
  std::shared_ptr<TokenGrammar> grammar = {};
  std::int64_t adapter = -1;  ///< index of stack_adapters(); -1: none. Sequences of one step may differ
  /// Log-probabilities with each token: -1: none; else of the token and of this many most probable ones, up to 20.
  std::int64_t logprobs = -1;
  /// Images in the prompt. Prompts reuse what the cache has of others with the same images (ImageRows::content). Not
  /// together with `endless`, and not where the model is divided over ranks.
  std::shared_ptr<const PromptImages> images = {};
};

enum class StopReason : std::uint8_t { none, stop_token, max_tokens, context_full, left, failed };
/// "stop token", "length", ...
const char* name(StopReason reason);

/// The largest GenerationOptions::logprobs.
inline constexpr std::int64_t kMaxLogprobs = 20;

/// A generated token and its sequence. Log-probabilities, where the sequence has them, are those of the model: natural
/// logarithms of softmax(logits), before biases, penalties, grammar, temperature and filters.
struct GeneratedToken {
  std::int64_t sequence;
  std::int32_t token;
  float logprob = 0;  ///< of the token; 0 without GenerationOptions::logprobs
  /// The most probable tokens, best first; the token itself need not be among them.
  std::vector<std::pair<std::int32_t, float>> top = {};
};

/// Counts and times of generation, summed over all sequences.
struct GenerationTimes {
  std::int64_t prompt_tokens = 0, tokens = 0;   ///< tokens read, and generated
  std::int64_t guessed = 0, guessed_right = 0;  ///< tokens guessed, and those accepted
  double prompt_seconds = 0, decode_seconds = 0;
};

/// Generates text with a decoder (continuous batching): reads prompts in chunks, then decodes all sequences together,
/// one token per step. Decoding is a captured step: positions, sampling and the next token are tensors on the device,
/// so the host only reads tokens, one step behind. Sequences join and leave between steps. An error of a sequence ends
/// that sequence only. Not thread-safe.
///
/// A model that is divided over ranks (LoadOptions::split) has a generator in each of them, with the same options. All
/// ranks call the same functions with the same arguments, and get the same tokens: those of rank 0. Or rank 0 alone is
/// called: after lead(), and with all other ranks in follow(), it has them repeat what it is asked to do. An error in
/// one rank alone, such as OutOfMemory, ends the group then: what comes later throws distributed::RankLost.
class Generator {
 public:
  using Id = std::int64_t;

  /// @param model must outlive this object, and be on options.device
  /// @throws Error for an invalid number of slots or guesses or an invalid cache size, for a draft with another
  /// vocabulary, with too short a context for the guesses, or without guesses, and for a head for further tokens that
  /// the model does not have
  Generator(const Decoder& model, const GeneratorOptions& options = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Takes a slot and cache blocks for a prompt, but reads nothing: the next calls of step() read it, in chunks between
  /// the steps of running sequences. @param prompt at least one token
  /// @throws Error if no slot is free, the prompt is empty or an option is out of range; IndexError for a token outside
  /// the vocabulary; CacheFull. Nothing changes then, and has_room() and another call may succeed later.
  Id begin(std::span<const std::int32_t> prompt, const GenerationOptions& options = {});
  /// Like begin(), and reads the whole prompt at once.
  /// @throws as begin(), and SuspiciousWeights if the logits after the prompt are NaN, infinite or all equal
  Id join(std::span<const std::int32_t> prompt, const GenerationOptions& options = {});
  bool has_room() const;
  /// Whether any sequence is being read or running: step() has something to do.
  bool busy() const { return running() > 0; }
  std::int64_t running() const;  ///< sequences that have a slot: those being read and those decoded
  /// Reads at most GeneratorOptions::chunk tokens of prompts that wait, and decodes the next token of each running
  /// sequence, or several with guesses. Prompts take turns, so that a short one does not wait for a long one's end.
  /// Empty once all have ended, and where there are only prompts that are still being read: ask busy(). A sequence for
  /// which the cache has no free block waits until another one ends. Where reading or checking one sequence fails
  /// (SuspiciousWeights, OutOfMemory), it ends with StopReason::failed, and others go on.
  /// @throws CacheFull if all sequences wait, and OutOfMemory where all need memory for their next token; call leave()
  /// for one of them to continue
  std::vector<GeneratedToken> step();
  /// Why a sequence ended; none while it is being read or runs.
  /// @throws IndexError for one that never began, or that was forgotten
  StopReason stopped(Id sequence) const;
  /// The message of the error that ended a sequence; empty unless stopped() is failed. @throws IndexError as stopped()
  std::string error_of(Id sequence) const;
  /// Whether that error was OutOfMemory, so that the sequence may succeed later. @throws IndexError as stopped()
  bool ran_out_of_memory(Id sequence) const;
  /// How many tokens of the prompt were found in the cache. @throws IndexError as stopped()
  std::int64_t reused(Id sequence) const;
  /// Ends a sequence, also one that is being read; does nothing if it has already ended.
  void leave(Id sequence);
  /// Drops what is known of an ended sequence: stopped() and the like then throw. Does nothing for one that runs or
  /// was forgotten. Of sequences that nobody forgets, the last 65,536 that ended are remembered.
  void forget(Id sequence);

  /// Builds the pipelines and captures the steps that most sequences need, of each width up to the context, so that the
  /// first ones are not slower than others. Changes neither the cache nor any count.
  /// @throws Error while sequences run; OutOfMemory
  void warm_up();

  /// Generates one whole text. @param seen is called with each token; returning false ends the text
  StopReason generate(std::span<const std::int32_t> prompt, const GenerationOptions& options,
                      const std::function<bool(std::int32_t)>& seen);

  /// Logits of all positions of a given text, [T, vocabulary]; leaves the cache unchanged.
  /// @param images in the text, as GenerationOptions::images; null: none
  /// @throws IndexError for a token outside the vocabulary; CacheFull; as begin() for images
  Tensor logits(std::span<const std::int32_t> tokens, std::int64_t adapter = -1, const PromptImages* images = nullptr);
  /// Log-probabilities of the tokens of a given text, each behind those before it, in as little memory as a few rows of
  /// logits take; leaves the cache unchanged.
  /// @param top also so many most probable tokens at each position, 0 to kMaxLogprobs
  /// @return one for each token but the first, whose `sequence` is -1
  /// @throws as logits(); Error for another `top`; SuspiciousWeights for logits that are no numbers
  std::vector<GeneratedToken> logprobs(std::span<const std::int32_t> tokens, std::int64_t top = 0,
                                       std::int64_t adapter = -1);

  /// The final norm's output for all positions of a given text, [T, width]; neither reads nor changes the cache.
  /// @throws as logits(), but CacheFull; Error for more tokens than the context
  Tensor hidden(std::span<const std::int32_t> tokens, std::int64_t adapter = -1);

  KvCache& cache() { return cache_; }
  /// KvCache::forget(): drops all cached prefixes that no sequence uses.
  void forget_prefixes();
  /// Writes the cached prefixes to a file, which only a generator of the same model accepts: same design, weights,
  /// adapters, and dtype of keys. Reads all weights for that. @throws as KvCache::save()
  void save_cache(const FilePath& path) const;
  /// @return blocks added @throws as KvCache::load()
  std::int64_t load_cache(const FilePath& path);
  /// The draft model's cache; null without a draft.
  KvCache* draft_cache();
  const GenerationTimes& times() const { return times_; }

  // ---- Of a model that is divided over ranks, where rank 0 alone is called.

  /// The other ranks repeat all later calls. @throws Error unless this is rank 0, with a part of a model
  void lead();
  /// Ends follow() on the other ranks; so does the destructor. Does nothing without lead().
  void stop_leading();
  /// Waits for calls of rank 0's generator, however long none comes, and repeats them until it stops leading.
  /// @throws Error on rank 0; distributed::RankLost; RanksDiffer where this rank gives something else than rank 0; what
  /// an error in this rank alone throws
  void follow();

 private:
  friend class TextReading;
  friend class TextLogprobs;
  struct Ranks;
  struct Slot;
  struct Steps;
  struct Drawn;
  struct Ended;

  Slot* slot_of(Id sequence);
  const Slot* slot_of(Id sequence) const { return const_cast<Generator*>(this)->slot_of(sequence); }
  const Ended& ended(Id sequence) const;
  void launch();
  StepKind step_kind() const;
  std::int64_t top_count(const GenerationOptions& options) const;
  Drawn draw(const Tensor& logits, std::int64_t begin, std::int64_t end, const StepKind& kind);
  std::vector<PendingValue> logprobs_of(const Slot& slot, const std::vector<PendingValue>& from, std::size_t row,
                                        std::int64_t top) const;
  void find_mask(const Slot& slot);
  void write_mask_rows();
  void run_step(const StepKind& kind);
  bool can_guess() const;
  std::vector<std::int64_t> find_guesses(std::vector<std::int32_t>& read);
  void check_guesses(bool greedy);
  void take_up(const Tensor& right);
  void guess(std::vector<GeneratedToken>& tokens);
  bool give(Slot& slot, GeneratedToken token, std::vector<GeneratedToken>& tokens);
  void finish(Slot& slot, StopReason reason, const std::string& error = {});
  void fail(Slot& slot, const std::exception& error);
  bool is_full(const Slot& slot) const;
  bool waits(const Slot& slot) const;
  void make_room(Slot& slot, std::int64_t rows = 1);
  Id read_whole(std::span<const std::int32_t> prompt, const GenerationOptions& options);
  Slot& take_slot(std::span<const std::int32_t> prompt, const GenerationOptions& options);
  void read_chunk(Slot& slot);
  Tensor read_rows(const Slot& slot, std::span<const std::int32_t> tokens, std::int64_t at, std::int32_t next);
  void check_images(const PromptImages& images, std::int64_t length) const;
  std::optional<ImageChunk> image_chunk(const PromptImages* images, std::int64_t length, std::int64_t at,
                                        std::int64_t count) const;
  bool captures_prompt(std::int64_t tokens, std::int64_t at = 0) const;
  bool can_capture() const;
  Tensor same_on_all_ranks(const Tensor& tokens) const;
  std::int64_t most_blocks() const;
  Tensor read_captured(std::span<const std::int32_t> tokens, std::int64_t at, std::int32_t next, std::int64_t adapter,
                       KvCache::Id cached);
  std::int64_t next_chunk(const Slot& slot) const;
  void write_state_row(const Slot& slot);
  DecoderCache with_states(DecoderCache cache, const Tensor& rows, const Tensor& counts = {});
  void draw_first(Slot& slot, const Tensor& last);
  void check_range(Slot& slot);
  void read_prompts();
  void read_again(Slot& slot);
  std::vector<GeneratedToken> next_tokens();
  std::optional<CacheFull> queue_steps();
  bool prepare(Slot& slot);
  void activate(Slot& slot, bool active);
  void take_tokens(std::vector<GeneratedToken>& tokens);
  void write_sampling(const Slot& slot);
  void write_counts(const Slot& slot);
  void write_row(std::size_t slot);
  DecoderCache slots_cache(const Tensor& tokens);
  void check_adapter(std::int64_t adapter) const;
  Tensor adapter_row(std::int64_t adapter) const;
  void widen(std::int64_t blocks);
  void set_width(std::int64_t width);
  void warm_up_steps();
  void warm_up_prompts();
  std::int64_t step_rows() const;
  Tensor first_slots(const Tensor& x, std::int64_t rows) const;
  Tensor read_by_steps(std::int64_t rows) const;
  void extend_on_host(const Tensor& tokens);
  Tensor extended(const Tensor& tokens);

  template <typename Write, typename Work>
  auto on_all_ranks(RankCall call, Write write, Work work);
  void repeat(RankCall call, CallReader& in);

  const Decoder& model_;
  const GeneratorOptions options_;
  Owned<Ranks> ranks_;  ///< null: all ranks are called, or there is one
  KvCache cache_;
  std::vector<Slot> slots_;
  Id next_ = 0;
  std::int64_t turn_ = 0;  ///< counts chunks, so that prompts take turns
  std::int64_t width_ = 0;
  Tensor tokens_, positions_, active_, adapters_, state_rows_, table_, numbers_, seeds_, draws_, counts_, bias_;
  Tensor guessed_;  ///< [2, slots, 1 + guesses] i32: the tokens that a step with guesses reads and samples
  Owned<Steps> steps_;
  Owned<Draft> draft_;
  Owned<MtpDraft> mtp_;  ///< null without GeneratorOptions::mtp
  GenerationTimes times_;
};

/// Log-probabilities of the tokens of a given text, as Generator::logprobs(), chunk by chunk: the generator's sequences
/// may go on between two of them. The numbers are the same.
class TextLogprobs {
 public:
  /// Takes cache blocks for the whole text, and reads nothing. @param generator must outlive this object
  /// @throws as Generator::logprobs()
  TextLogprobs(Generator& generator, std::span<const std::int32_t> tokens, std::int64_t top = 0,
               std::int64_t adapter = -1);
  ~TextLogprobs();

  /// Reads at most GeneratorOptions::chunk tokens. @return whether there are more
  /// @throws SuspiciousWeights, OutOfMemory
  bool read();
  /// One for each token that was read but the first, whose `sequence` is -1.
  std::vector<GeneratedToken> take() { return std::move(result_); }

 private:
  void add(const Tensor& x);

  Generator& generator_;
  std::int64_t number_ = -1;  ///< by which other ranks know it
  const std::vector<std::int32_t> tokens_;
  std::int64_t most_ = 0;
  Owned<TextReading> reading_;  ///< null where nothing is to be read
  std::vector<GeneratedToken> result_;
};

}  // namespace etna::models
