#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <etna/models/generator.h>
#include <etna/models/grammar/grammar.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/mask_table.h>
#include <etna/models/internal/state_cache.h>
#include <etna/tensor/capture.h>

/// The state of a Generator's sequences and steps. Internal.
namespace etna::models {

/// The least width of the block table.
inline constexpr std::int64_t kGeneratorFirstWidth = 8;

/// The position on the device of a slot that takes no part in steps: not even the last of a step's rows comes to a
/// position of its text, which may just be read.
inline constexpr double kNowhere = -(1 << 20);

/// The longest chunk of a prompt that is read by a captured step on a device with little memory.
inline constexpr std::int64_t kFewCapturedTokens = 512;
/// The same on this device: as many tokens as a step may keep in a 64th of its memory; at least the above, at most
/// 2,048.
std::int64_t most_captured_prompt(const DecoderConfig& config, Device device);
/// What a step that reads so many tokens keeps at once in f32, logits and decoded matrices aside.
/// @param positions in the cache behind the step, at least as many as tokens; 0: as many
std::uint64_t prompt_bytes(const DecoderConfig& config, std::int64_t tokens, std::int64_t positions = 0);
/// The tokens of the step that reads a chunk of so many: 16, 32, 48, 64, 96, 128, 192, …, 512, 640, 768, …
std::int64_t captured_prompt_rows(std::int64_t tokens);

/// The size of a prompt's next chunk from `at` on, of which no image is cut: it ends before an image that begins in it,
/// or else with the image. @param count of tokens
std::int64_t whole_images(const PromptImages& images, std::int64_t at, std::int64_t count);

/// How many of a prompt's first tokens others may find in the cache: whole blocks, of which none ends within an image.
/// @param images in it; null: none
std::int64_t shared_length(const PromptImages* images, std::int64_t length);
/// How a prompt differs from its tokens. @param images in it; null: none
CachedPrompt cached_prompt(const DecoderConfig& config, std::int64_t adapter, const PromptImages* images);

/// Which captured step it is: everything that changes what is captured.
struct StepKind {
  bool guesses = false, greedy = false, counts = false, bias = false, grammar = false;
  std::int64_t logprobs = -1;  ///< -1: none; else so many most probable tokens besides the sampled one
  std::int64_t width = 0;      ///< of the block table
  std::int64_t rows = 0;       ///< slots that it computes, the first ones
  auto operator<=>(const StepKind&) const = default;
};

/// A token that a queued step samples, and its log-probabilities: its own, then each most probable token's and its id.
struct PendingToken {
  PendingValue token;
  std::vector<PendingValue> logprobs;
};

/// Sampled tokens [rows] i32, and their log-probabilities [rows, 1 + 2 · top] f32: the token's, the largest ones, and
/// the tokens of those. Tokens below 2^24 are exact.
struct Generator::Drawn {
  Tensor tokens, logprobs;
};

struct Generator::Slot {
  Id sequence = -1;  ///< -1: free
  KvCache::Id cached = -1;
  GenerationOptions options;
  std::vector<std::int32_t> tokens;  ///< the tokens that the host has seen
  std::int64_t prompt = 0;           ///< the first so many of them are the prompt
  std::deque<PendingToken> pending;
  TokenGrammar::State state = TokenGrammar::kStart;  ///< of the grammar, after the tokens that the host has seen
  std::vector<PendingValue> range;  ///< of the logits behind the prompt: least and largest; empty once checked
  std::int64_t position = 0;        ///< of the token that is read next
  std::int64_t generated = 0;       ///< tokens, queued steps included
  std::int64_t given = 0;           ///< tokens returned to the caller
  std::int64_t dropped = 0;         ///< positions that an endless text has dropped
  std::int64_t blocks = 0;          ///< in the block table on the device
  std::int64_t reused = 0;          ///< tokens of the prompt that were in the cache
  std::int64_t turn = 0;            ///< of all prompts, the one with the least reads next
  bool reading = false;             ///< its prompt is not read yet
  bool drawing = false;             ///< it takes part in the next step
  bool active = false;              ///< its position on the device is not kNowhere

  bool taken() const { return sequence >= 0; }
  bool decoding() const { return taken() && !reading; }
};

/// What is remembered of a sequence that has ended.
struct Generator::Ended {
  StopReason reason = StopReason::none;
  std::int64_t reused = 0;
  std::string error;
  bool memory = false;  ///< which it ran out of
};

struct Generator::Steps {
  /// Captured, or called as it is where collectives cannot be captured.
  struct Step {
    std::function<void()> run;
    std::unique_ptr<CapturedFunction<std::function<void()>>> captured;

    void operator()() const { captured ? (*captured)() : run(); }
  };
  static std::unique_ptr<Step> step(std::function<void()> run, const CaptureOptions& options, bool captures) {
    auto made = std::make_unique<Step>(Step{std::move(run), nullptr});
    if (captures)
      made->captured = std::make_unique<CapturedFunction<std::function<void()>>>(capture(made->run, options));
    return made;
  }
  using PromptStep = CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>>;
  std::map<StepKind, std::unique_ptr<Step>> captured;
  /// Reads a chunk of a prompt; null until one is read that is captured.
  std::unique_ptr<PromptStep> prompt;
  std::map<std::int64_t, Tensor> tables;    ///< block tables by width
  std::map<std::int64_t, Tensor> logprobs;  ///< what a step writes, [slots, 1 + 2 · top] f32, by top
  std::unique_ptr<MaskTable> masks;         ///< null until a sequence has a grammar
  Tensor mask_rows;                         ///< [slots] i32, rows of the masks; -1: none
  std::vector<std::int32_t> rows;           ///< the same on the host
  bool new_rows = false;                    ///< the device does not have them yet
  /// Of layers that keep a state, while a step reads guesses; empty where none does.
  std::vector<LayerState> holding;
  Tensor right;                   ///< [slots] i32: of each slot, how many of the rows that are held were right
  std::unique_ptr<Step> take_up;  ///< null until a step had guesses
  /// By rows and tokens of each: what the blocks on the CPU gave.
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> from_host;
  std::map<Id, Ended> ended;
};

}  // namespace etna::models
