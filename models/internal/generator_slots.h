#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <etna/models/generator.h>
#include <etna/tensor/capture.h>

/// The state of a Generator's sequences and steps. Internal.
namespace etna::models {

/// Which captured step it is: everything that changes what is captured.
struct StepKind {
  bool guesses, greedy, counts, bias;
  std::int64_t width;
  auto operator<=>(const StepKind&) const = default;
};

struct Generator::Slot {
  Id sequence = -1;  ///< -1: free
  KvCache::Id cached = -1;
  GenerationOptions options;
  std::vector<std::int32_t> tokens;  ///< the tokens that the host has seen
  std::int64_t prompt = 0;           ///< the first so many of them are the prompt
  std::deque<PendingValue> pending;
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
  bool active = false;              ///< its position on the device is not -1

  bool taken() const { return sequence >= 0; }
  bool decoding() const { return taken() && !reading; }
};

struct Generator::Steps {
  using Step = CapturedFunction<std::function<void()>>;
  std::map<StepKind, std::unique_ptr<Step>> captured;
};

}  // namespace etna::models
