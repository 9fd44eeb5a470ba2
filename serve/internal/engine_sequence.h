#pragma once

#include <functional>

#include <etna/serve/engine.h>
#include <etna/serve/text_of_tokens.h>

/// What an engine knows of a sequence and of a task. Internal to the engine's sources.
namespace etna::serve {

struct Engine::Sequence {
  SequenceRequest request;
  std::int64_t choice = 0;
  std::size_t model = 0;
  std::shared_ptr<AnswerStream> stream;
  TextOfTokens text;
  Clock::time_point taken, started = {}, last_token = {};
  models::Generator::Id id = -1;  ///< -1: it waits
  std::int64_t tokens = 0, cached_tokens = 0;
  double first_token = 0, longest_gap = 0;   ///< seconds
  std::vector<TokenLogprobs> logprobs = {};  ///< of tokens whose text is held back
  std::shared_ptr<RequestReceipt> receipt = {};
};

struct Engine::Task {
  std::function<bool()> work;  ///< returns whether there is more
  std::condition_variable changed = {};
  std::shared_ptr<RequestReceipt> receipt = {};
  bool begun = false, done = false, abandoned = false;
  std::exception_ptr error = {};
};

}  // namespace etna::serve
