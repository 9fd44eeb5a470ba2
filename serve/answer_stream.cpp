#include <etna/serve/answer_stream.h>

namespace etna::serve {
namespace {

/// Bytes of text that may wait before the reader counts as slow.
constexpr std::size_t kPatientBytes = 4096;

bool joins(const AnswerEvent& last, const AnswerEvent& event) {
  return event.kind == EventKind::text && last.kind == EventKind::text && last.choice == event.choice;
}

}  // namespace

std::optional<AnswerEvent> AnswerStream::next(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, wait,
                    [&] { return open_ == 0 || finished_ > 0 || (!waits_for_finish_ && !events_.empty()); });
  if (events_.empty()) return std::nullopt;
  AnswerEvent event = std::move(events_.front());
  events_.pop_front();
  if (event.kind == EventKind::finish) --finished_;
  bytes_ -= event.text.size();
  full_since_.reset();
  if (bytes_ > kPatientBytes) full_since_ = std::chrono::steady_clock::now();
  return event;
}

bool AnswerStream::ended() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0 && events_.empty();
}

void AnswerStream::push(AnswerEvent event) {
  {
    const std::lock_guard lock(mutex_);
    if (event.kind == EventKind::finish) --open_, ++finished_;
    bytes_ += event.text.size();
    if (bytes_ > kPatientBytes && !full_since_) full_since_ = std::chrono::steady_clock::now();
    if (!events_.empty() && joins(events_.back(), event)) {
      AnswerEvent& last = events_.back();
      last.text += event.text;
      for (TokenLogprobs& token : event.logprobs) last.logprobs.push_back(std::move(token));
      return;  // the reader has not woken up yet
    }
    events_.push_back(std::move(event));
    if (waits_for_finish_ && finished_ == 0) return;
  }
  arrived_.notify_one();
}

std::chrono::steady_clock::duration AnswerStream::stalled() const {
  const std::lock_guard lock(mutex_);
  return full_since_ ? std::chrono::steady_clock::now() - *full_since_ : std::chrono::steady_clock::duration::zero();
}

}  // namespace etna::serve
