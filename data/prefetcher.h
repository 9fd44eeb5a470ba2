#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <etna/device/platform.h>
#include <etna/device/profile/profiler.h>

namespace etna::data {

/// Runs `produce` in its own thread, at most `depth` items ahead of next(); where there are no threads, in next(). Only
/// one thread may consume.
template <typename T>
class Prefetcher {
 public:
  /// @param produce returns the next item, or nothing at the end; next() rethrows its exceptions
  explicit Prefetcher(std::function<std::optional<T>()> produce, std::size_t depth = 2)
      : produce_(std::move(produce)), depth_(depth == 0 ? 1 : depth) {
    if constexpr (kHasThreads) thread_ = std::thread([this] { run(); });
  }

  /// Waits for the item in production only, not for items that nobody took.
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    space_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Items in the order they were produced, then nothing from then on. An exception is thrown once, after the items
  /// before it.
  std::optional<T> next() {
    if constexpr (!kHasThreads) return next_in_caller();
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !items_.empty() || done_; });
    if (items_.empty()) {
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    space_.notify_one();
    return item;
  }

 private:
  std::optional<T> next_in_caller() {
    if (done_) return std::nullopt;
    try {
      std::optional<T> item = produce_();
      done_ = !item;
      return item;
    } catch (...) {
      done_ = true;
      throw;
    }
  }

  void run() {
    profile::name_thread("loader");
    std::exception_ptr failure;
    try {
      while (wait_for_space()) {
        std::optional<T> item = [this] {
          profile::Scope scope("load");
          return produce_();
        }();
        if (!item) break;
        const std::lock_guard lock(mutex_);
        items_.push_back(std::move(*item));
        ready_.notify_one();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
    ready_.notify_one();
  }

  bool wait_for_space() {
    std::unique_lock lock(mutex_);
    space_.wait(lock, [this] { return items_.size() < depth_ || stop_; });
    return !stop_;
  }

  std::function<std::optional<T>()> produce_;
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable ready_, space_;
  std::deque<T> items_;
  std::exception_ptr failure_;
  bool stop_ = false, done_ = false;
  std::thread thread_;
};

}  // namespace etna::data
