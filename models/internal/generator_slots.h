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
  std::int64_t position = 0;   ///< of the token that the next step reads
  std::int64_t generated = 0;  ///< tokens, queued steps included
  std::int64_t given = 0;      ///< tokens returned to the caller
  std::int64_t dropped = 0;    ///< positions that an endless text has dropped
  std::int64_t blocks = 0;     ///< in the block table on the device
  bool drawing = false;        ///< it takes part in the next step
  bool active = false;         ///< its position on the device is not -1

  bool running() const { return sequence >= 0; }
};

struct Generator::Steps {
  using Step = CapturedFunction<std::function<void()>>;
  std::map<StepKind, std::unique_ptr<Step>> captured;
  std::map<std::int64_t, Tensor> from_host;  ///< by rows of a sequence: what the blocks on the CPU gave
};

}  // namespace etna::models
