#include <etna/serve/read_answers.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

class ReadAnswers : public EventSource {
 public:
  ReadAnswers(std::shared_ptr<EventSource> source, ReadAnswersOptions options)
      : source_(std::move(source)), options_(std::move(options)) {
    for (std::int64_t i = 0; i < options_.choices; ++i) {
      choices_.push_back({AnswerReader(options_.reader)});
      std::vector<AnswerEvent> none;
      choices_.back().reader.read(options_.begin, none);
      take(none, i);
    }
  }

  std::optional<AnswerEvent> next(std::chrono::milliseconds wait) override {
    if (ready_.empty()) {
      if (failed_) return std::nullopt;
      std::optional<AnswerEvent> event = current()->next(wait);
      if (!event) return std::nullopt;
      read(std::move(*event));
    }
    if (ready_.empty()) return std::nullopt;
    AnswerEvent event = std::move(ready_.front());
    ready_.pop_front();
    return event;
  }
  bool ended() const override { return ready_.empty() && (failed_ || current()->ended()); }
  /// Reasoning with a limit, and calls of which one is wanted, end when their text says so.
  void wait_for_finish() override {
    if (!options_.reasoning_tokens && options_.reader.tools.empty()) current()->wait_for_finish();
  }
  void cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    source_->cancel();
  }

 private:
  struct Choice {
    AnswerReader reader;
    std::string reasoning = {}, all = {};  ///< as reported; all that came, where reasoning has a limit
    std::int64_t tokens = 0;               ///< of reasoning
    std::vector<TokenLogprobs> logprobs = {};
    bool mute = false;
  };

  std::shared_ptr<EventSource> current() const {
    const std::lock_guard lock(mutex_);
    return source_;
  }

  void read(AnswerEvent event) {
    Choice& choice = choices_.at(static_cast<std::size_t>(event.choice));
    std::vector<AnswerEvent> events;
    for (TokenLogprobs& token : event.logprobs) choice.logprobs.push_back(std::move(token));
    event.logprobs.clear();
    if (event.kind == EventKind::finish) {
      choice.reader.finish(events);
      take(events, event.choice);
      if (event.finish == FinishReason::stop && choice.reader.calls() > 0) event.finish = FinishReason::tool_calls;
      if (options_.tokenizer != nullptr && !choice.reasoning.empty())
        event.usage.reasoning_tokens = std::min(count(choice.reasoning), event.usage.completion_tokens + spent_);
      event.usage.completion_tokens += spent_;
      event.logprobs = std::move(choice.logprobs);
      ready_.push_back(std::move(event));
      return;
    }
    if (options_.reasoning_tokens) {
      // A piece may have the tag that opens reasoning, and much of the reasoning behind it.
      const std::string& open = options_.reader.syntax.think_open;
      const std::size_t before = choice.all.size(), at = (choice.all + event.text).find(open);
      const std::size_t end = at == std::string::npos ? 0 : at + open.size();
      if (end > before) {
        choice.all += event.text.substr(0, end - before);
        choice.reader.read(event.text.substr(0, end - before), events);
        event.text.erase(0, end - before);
      }
      if (choice.reader.in_reasoning()) keep_within(choice, event.text);
      choice.all += event.text;
    }
    choice.reader.read(event.text, events);
    take(events, event.choice);
    if (options_.reasoning_tokens && choice.reader.in_reasoning() && choice.tokens >= *options_.reasoning_tokens)
      close_reasoning(choice);
  }

  /// Counts the tokens of a piece of reasoning, and cuts off what exceeds the limit: several may have come at once.
  void keep_within(Choice& choice, std::string& piece) const {
    if (piece.empty()) return;
    std::vector<std::int32_t> ids = options_.tokenizer->encode(piece, data::SpecialTokens::as_text);
    const std::int64_t room = std::max<std::int64_t>(0, *options_.reasoning_tokens - choice.tokens);
    const std::int64_t count = std::max<std::int64_t>(1, std::ssize(ids));
    choice.tokens += std::min(count, room);
    if (count <= room || piece.find(options_.reader.syntax.think_close) != std::string::npos) return;
    std::size_t end = piece.size() * static_cast<std::size_t>(room) / static_cast<std::size_t>(count);
    ids.resize(static_cast<std::size_t>(room));
    const std::string begin = options_.tokenizer->decode(ids);
    if (piece.starts_with(begin)) end = begin.size();
    while (end > 0 && (static_cast<unsigned char>(piece[end]) & 0xC0u) == 0x80u) --end;  // not within a character
    piece.resize(end);
  }

  /// The answer goes on in another sequence: this text with the closing tag behind it. Its prompt is in the cache.
  void close_reasoning(Choice& choice) {
    spent_ = choice.tokens;
    const std::string& open = options_.reader.syntax.think_open;
    const std::size_t from = options_.reader.reasoning ? 0 : choice.all.find(open) + open.size();
    std::shared_ptr<EventSource> rest;
    try {
      rest = options_.resume(choice.all.substr(from), choice.tokens);
    } catch (const ApiError& error) {
      cancel();
      failed_ = true;
      ready_.push_back({.kind = EventKind::finish,
                        .finish = FinishReason::failed,
                        .error = {error.status, error.what(), error.code}});
      return;
    }
    options_.reasoning_tokens.reset();
    std::vector<AnswerEvent> events;
    choice.reader.read(reasoning_end(options_.reader.syntax, !options_.reader.tools.empty()), events);
    take(events, 0);
    const std::lock_guard lock(mutex_);
    source_->cancel();
    source_ = rest;
    if (cancelled_) source_->cancel();
  }

  void take(std::vector<AnswerEvent>& events, std::int64_t index) {
    Choice& choice = choices_.at(static_cast<std::size_t>(index));
    for (AnswerEvent& event : events) {
      if (event.kind == EventKind::reasoning) choice.reasoning += event.text;
      if (choice.mute) continue;
      event.choice = index;
      event.logprobs = std::exchange(choice.logprobs, {});
      choice.mute = event.kind == EventKind::tool_call_ends && !options_.parallel_calls;
      ready_.push_back(std::move(event));
    }
  }

  std::int64_t count(const std::string& text) const {
    return std::ssize(options_.tokenizer->encode(text, data::SpecialTokens::as_text));
  }

  mutable std::mutex mutex_;  ///< guards source_ and cancelled_; the rest belongs to the reader's thread
  std::shared_ptr<EventSource> source_;
  bool cancelled_ = false;
  bool failed_ = false;  ///< to go on after reasoning
  ReadAnswersOptions options_;
  std::vector<Choice> choices_;
  std::deque<AnswerEvent> ready_;
  std::int64_t spent_ = 0;  ///< tokens of reasoning in a sequence that was left
};

}  // namespace

std::shared_ptr<EventSource> read_answers(std::shared_ptr<EventSource> source, ReadAnswersOptions options) {
  return std::make_shared<ReadAnswers>(std::move(source), std::move(options));
}

}  // namespace etna::serve
