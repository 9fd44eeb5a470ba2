#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <etna/models/generator.h>
#include <etna/tensor/capture.h>

/// What a Generator keeps of its sequences and steps. Internal.
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
  std::vector<std::int32_t> tokens;  ///< those that the host has seen
  std::int64_t prompt = 0;           ///< of them, from the first on
  std::deque<PendingValue> pending;
  std::int64_t position = 0;   ///< of the token that the next step reads
  std::int64_t generated = 0;  ///< queued steps included
  std::int64_t given = 0;      ///< to the caller
  std::int64_t dropped = 0;    ///< positions that an endless text has given up
  std::int64_t blocks = 0;     ///< in the table on the device
  bool drawing = false;        ///< the next step is for it, too
  bool active = false;         ///< its position on the device is not -1

  bool running() const { return sequence >= 0; }
};

struct Generator::Steps {
  using Step = CapturedFunction<std::function<void()>>;
  std::map<StepKind, std::unique_ptr<Step>> captured;
  std::vector<Tensor> token_of_slot;  ///< views of what a step draws, made once
};

}  // namespace etna::models
