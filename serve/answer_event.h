#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The stream of events that answers a request, of every API.
namespace etna::serve {

struct TokenProbability {
  std::int32_t token = 0;
  std::string text;  ///< the token's bytes, which may be a part of a character
  double logprob = 0;
};

/// A generated token with its most probable alternatives, the most probable first.
struct TokenLogprobs {
  TokenProbability chosen;
  std::vector<TokenProbability> top;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< tokens of the prompt that the cache already had
  std::int64_t completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;  ///< those of them that were reasoning
};

/// Seconds since the request was taken, but for those that name a span.
struct Timings {
  double queued = 0;       ///< until its prompt was read
  double first_token = 0;  ///< until its first token
  double total = 0;
  double longest_gap = 0;  ///< between two tokens
};

enum class FinishReason : std::uint8_t {
  stop,        ///< the model ended the text, or a stop text came
  length,      ///< max_tokens, or the context is full
  tool_calls,  ///< the answer calls tools
  failed,      ///< `error` of the event says why
};

enum class EventKind : std::uint8_t {
  text,
  reasoning,
  tool_call_begins,     ///< has tool_id and tool_name
  tool_call_arguments,  ///< a piece of JSON text
  tool_call_ends,
  finish,  ///< of one choice; has finish, usage and timings
};

/// What went wrong while an answer was written.
struct AnswerError {
  int status = 500;  ///< of HTTP, had no byte been sent
  std::string message, code;
};

struct AnswerEvent {
  EventKind kind = EventKind::text;
  std::int64_t choice = 0;
  std::string text = {};       ///< the piece: of the answer, the reasoning or the arguments
  std::int64_t tool_call = 0;  ///< index of the call in this choice
  std::string tool_id = {}, tool_name = {};
  std::vector<TokenLogprobs> logprobs = {};  ///< of the tokens that led to this event, if asked for
  FinishReason finish = FinishReason::stop;
  std::string stop_text = {};  ///< finish: the stop text that ended the answer; empty where another reason did
  Usage usage = {};            ///< finish: of this choice
  Timings timings = {};
  AnswerError error = {};
};

}  // namespace etna::serve
