#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <etna/device/platform.h>
#include <etna/device/profile/profiler.h>

namespace etna::data {

/// Makes items first, first + 1 ... end-1 in several threads and hands them out in that order, at most `depth` ahead.
/// Without threads, next() makes them. Only one thread may consume.
template <typename T>
class OrderedWorkers {
 public:
  /// Makes an item; `stopped` turns true when nobody waits for it any more.
  using Produce = std::function<T(std::int64_t item, const std::atomic<bool>& stopped)>;

  OrderedWorkers(Produce produce, std::int64_t first, std::int64_t end, int threads, std::int64_t depth)
      : produce_(std::move(produce)),
        end_(end),
        depth_(std::max<std::int64_t>(depth, 1)),
        claimed_(first),
        wanted_(first) {
    const std::int64_t useful = kHasThreads ? std::min<std::int64_t>(threads, end - first) : 0;
    try {
      for (std::int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  /// Waits for the items in production only.
  ~OrderedWorkers() { stop(); }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  /// The next item; nothing after the last. An exception takes the place of its item.
  std::optional<T> next() {
    if (wanted_ >= end_) return std::nullopt;
    if (threads_.empty()) return produce_(wanted_++, stopped_);
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return made_.contains(wanted_); });
    return take(lock);
  }

  /// The next item if it is made already, without waiting or throwing.
  std::optional<T> next_if_ready() {
    if (threads_.empty()) return std::nullopt;
    std::unique_lock lock(mutex_);
    const auto found = made_.find(wanted_);
    if (found == made_.end() || found->second.failure) return std::nullopt;
    return take(lock);
  }

 private:
  struct Made {
    std::optional<T> item;
    std::exception_ptr failure;
  };

  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    Made made = std::move(made_.extract(wanted_).mapped());
    ++wanted_;
    lock.unlock();
    space_.notify_one();
    if (made.failure) std::rethrow_exception(std::move(made.failure));
    return std::move(made.item);
  }

  void run() {
    profile::name_thread("loader");
    std::unique_lock lock(mutex_);
    while (true) {
      space_.wait(lock, [this] { return stopped_ || claimed_ >= end_ || claimed_ < wanted_ + depth_; });
      if (stopped_ || claimed_ >= end_) return;
      const std::int64_t item = claimed_++;
      lock.unlock();
      Made made;
      try {
        profile::Scope scope("load");
        made.item.emplace(produce_(item, stopped_));
      } catch (...) {
        made.failure = std::current_exception();
      }
      lock.lock();
      made_.emplace(item, std::move(made));
      ready_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    space_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const Produce produce_;
  const std::int64_t end_, depth_;
  std::mutex mutex_;
  std::condition_variable ready_, space_;
  std::atomic<bool> stopped_ = false;
  std::int64_t claimed_, wanted_;  ///< the next item to make, and to hand out
  std::map<std::int64_t, Made> made_;
  std::vector<std::thread> threads_;
};

}  // namespace etna::data
