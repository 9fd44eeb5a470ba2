#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include <etna/serve/answer_event.h>

namespace etna::serve {

/// Where the events that answer a request come from.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// The next event; nullopt where none came in this time, or where all have come.
  virtual std::optional<AnswerEvent> next(std::chrono::milliseconds wait) = 0;
  /// Every choice has finished, and all events were taken.
  virtual bool ended() const = 0;
  /// Nobody wants the rest. May be called more than once.
  virtual void cancel() = 0;
  /// The reader does nothing with a piece of text until its choice has finished: next() may wait for that, so that a
  /// thread does not wake up for each token.
  virtual void wait_for_finish() {}
};

/// The events of one request, on their way from the engine's thread to the thread that answers. The writer never waits:
/// pieces of text that nobody has taken become one, and a reader that takes nothing for long is noticed by stalled().
class AnswerStream : public EventSource {
 public:
  /// @param choices that must finish before the stream ends
  explicit AnswerStream(std::int64_t choices) : open_(choices) {}

  std::optional<AnswerEvent> next(std::chrono::milliseconds wait) override;
  bool ended() const override;
  void cancel() override { cancelled_ = true; }
  void wait_for_finish() override { waits_for_finish_ = true; }

  /// For the writer: whether the reader has cancelled.
  bool cancelled() const { return cancelled_; }

  /// For the writer: puts an event; after the last finish nothing more comes.
  void push(AnswerEvent event);
  /// For the writer: how long more than a little has waited for the reader.
  std::chrono::steady_clock::duration stalled() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<AnswerEvent> events_;
  std::size_t bytes_ = 0;  ///< of the texts in it
  std::int64_t open_;
  std::optional<std::chrono::steady_clock::time_point> full_since_;
  std::int64_t finished_ = 0;  ///< finishes in it
  std::atomic<bool> cancelled_ = false, waits_for_finish_ = false;
};

}  // namespace etna::serve
