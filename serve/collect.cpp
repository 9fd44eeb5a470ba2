#include <etna/serve/collect.h>

#include <fmt/format.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

using namespace std::chrono_literals;

ApiError failure(const AnswerError& error) {
  const bool server = error.status >= 500;
  return {error.status, server ? "server_error" : "invalid_request_error", error.message, "", error.code};
}

void add_event(CollectedChoice& choice, AnswerEvent& event) {
  switch (event.kind) {
    case EventKind::text:
      choice.text += event.text;
      break;
    case EventKind::reasoning:
      choice.reasoning += event.text;
      break;
    case EventKind::tool_call_begins:
      choice.tool_calls.push_back({event.tool_id, event.tool_name, event.text});
      break;
    case EventKind::tool_call_arguments:
      if (!choice.tool_calls.empty()) choice.tool_calls.back().arguments += event.text;
      break;
    case EventKind::tool_call_ends:
      break;
    case EventKind::finish:
      choice.finish = event.finish;
      choice.stop_text = event.stop_text;
      choice.usage = event.usage;
      choice.timings = event.timings;
      break;
  }
  for (TokenLogprobs& token : event.logprobs) choice.logprobs.push_back(std::move(token));
}

class PutBack : public EventSource {
 public:
  PutBack(AnswerEvent first, std::shared_ptr<EventSource> rest) : first_(std::move(first)), rest_(std::move(rest)) {}
  std::optional<AnswerEvent> next(std::chrono::milliseconds wait) override {
    if (!first_) return rest_->next(wait);
    std::optional<AnswerEvent> first = std::move(first_);
    first_.reset();
    return first;
  }
  bool ended() const override { return !first_ && rest_->ended(); }
  void cancel() override { rest_->cancel(); }

 private:
  std::optional<AnswerEvent> first_;
  std::shared_ptr<EventSource> rest_;
};

}  // namespace

std::vector<CollectedChoice> collect(EventSource& source, std::int64_t choices, const HttpRequest& request) {
  std::vector<CollectedChoice> all(static_cast<std::size_t>(choices));
  auto asked = std::chrono::steady_clock::now();
  source.wait_for_finish();
  while (!source.ended()) {
    std::optional<AnswerEvent> event = source.next(200ms);
    if (const auto now = std::chrono::steady_clock::now(); now - asked > 200ms) {
      asked = now;
      if (request.gone()) {
        source.cancel();
        throw ApiError(499, "invalid_request_error", "the client went away", "", "cancelled");
      }
    }
    if (!event) continue;
    if (event->kind == EventKind::finish && event->finish == FinishReason::failed) {
      source.cancel();
      throw failure(event->error);
    }
    add_event(all.at(static_cast<std::size_t>(event->choice)), *event);
  }
  return all;
}

void add_usage(Usage& sum, const Usage& usage, bool first) {
  if (first) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.cached_tokens += usage.cached_tokens;
  }
  sum.completion_tokens += usage.completion_tokens;
  sum.reasoning_tokens += usage.reasoning_tokens;
}

Usage usage_of(const std::vector<CollectedChoice>& choices, std::int64_t prompts) {
  Usage sum;
  const std::size_t each = choices.size() / static_cast<std::size_t>(prompts);
  for (std::size_t i = 0; i < choices.size(); ++i) add_usage(sum, choices[i].usage, i % each == 0);
  return sum;
}

SentEvents::SentEvents(std::shared_ptr<EventSource> source, const HttpRequest& request, const PieceWriter& write,
                       std::int64_t comment_seconds)
    : source_(std::move(source)),
      request_(request),
      write_(write),
      silence_(comment_seconds),
      last_(std::chrono::steady_clock::now()) {}

SentEvents::~SentEvents() { source_->cancel(); }

std::optional<AnswerEvent> SentEvents::next() {
  while (!gone_ && !source_->ended()) {
    if (std::optional<AnswerEvent> event = source_->next(250ms)) return event;
    if (source_->ended()) break;
    gone_ = gone_ || request_.gone();
    const auto now = std::chrono::steady_clock::now();
    if (!gone_ && now - last_ >= silence_) {
      gone_ = !write_(": waiting\n\n");
      last_ = now;
    }
  }
  return std::nullopt;
}

void SentEvents::send(std::string_view data, std::string_view name) {
  if (gone_) return;
  std::string text;
  text.reserve(data.size() + name.size() + 20);
  if (!name.empty()) text.append("event: ").append(name).append("\n");
  text.append("data: ").append(data).append("\n\n");
  gone_ = !write_(text);
  last_ = std::chrono::steady_clock::now();
}

std::optional<AnswerEvent> first_event(EventSource& source, const HttpRequest& request) {
  const auto until = std::chrono::steady_clock::now() + 1s;
  while (!source.ended() && std::chrono::steady_clock::now() < until) {
    std::optional<AnswerEvent> event = source.next(100ms);
    if (!event) {
      if (request.gone()) source.cancel();
      continue;
    }
    if (event->kind == EventKind::finish && event->finish == FinishReason::failed) {
      source.cancel();
      throw failure(event->error);
    }
    return event;
  }
  return std::nullopt;
}

std::shared_ptr<EventSource> with_first(std::optional<AnswerEvent> first, std::shared_ptr<EventSource> source) {
  if (!first) return source;
  return std::make_shared<PutBack>(std::move(*first), std::move(source));
}

}  // namespace etna::serve
