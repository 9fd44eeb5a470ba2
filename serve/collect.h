#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/serve/answer_stream.h>
#include <etna/serve/chat_request.h>
#include <etna/serve/http.h>

namespace etna::serve {

/// A whole answer.
struct CollectedChoice {
  std::string text, reasoning;
  std::vector<ToolCall> tool_calls;
  std::vector<TokenLogprobs> logprobs;
  FinishReason finish = FinishReason::stop;
  std::string stop_text;
  Usage usage;
  Timings timings;
};

/// Waits for all choices. If the client goes away meanwhile, or a choice fails, the rest is cancelled.
/// @throws ApiError for a choice that failed, and where the client is gone
std::vector<CollectedChoice> collect(EventSource& source, std::int64_t choices, const HttpRequest& request);
/// The sum over choices; they share the prompt, or not (`prompts` of them).
Usage usage_of(const std::vector<CollectedChoice>& choices, std::int64_t prompts = 1);
/// Adds the usage of a choice to a sum. @param first of its prompt
void add_usage(Usage& sum, const Usage& usage, bool first);

/// Server-sent events of an answer: asks the source for events and notices that the client has gone, which cancels the
/// source. Comments keep a silent connection open.
class SentEvents {
 public:
  SentEvents(std::shared_ptr<EventSource> source, const HttpRequest& request, const PieceWriter& write,
             std::int64_t comment_seconds);
  /// Cancels what was not taken.
  ~SentEvents();

  /// The next event; nullopt at the end, or where the client is gone.
  std::optional<AnswerEvent> next();
  /// Writes "data: DATA", after "event: NAME" where a name is given.
  void send(std::string_view data, std::string_view name = {});
  bool gone() const { return gone_; }

 private:
  const std::shared_ptr<EventSource> source_;
  const HttpRequest& request_;
  const PieceWriter& write_;
  const std::chrono::seconds silence_;
  std::chrono::steady_clock::time_point last_;
  bool gone_ = false;
};

/// Waits a little for the first event, so that a request that fails at once gets a status of its own.
/// @return the event, if one came @throws ApiError if it is a failure
std::optional<AnswerEvent> first_event(EventSource& source, const HttpRequest& request);

/// A source with one event put back before it.
std::shared_ptr<EventSource> with_first(std::optional<AnswerEvent> first, std::shared_ptr<EventSource> source);

}  // namespace etna::serve
