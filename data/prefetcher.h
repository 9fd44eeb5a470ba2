#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <etna/device/owned.h>

namespace etna::data {

namespace loading {

/// The threads of OrderedWorkers and Prefetcher, for items of any type.
class OrderedProducer {
 public:
  using Item = std::shared_ptr<void>;
  using Produce = std::function<Item(std::int64_t item, const std::atomic<bool>& stopped)>;

  OrderedProducer(Produce produce, std::int64_t first, std::int64_t end, int threads, std::int64_t depth);
  ~OrderedProducer();

  Item next();           ///< null after the last
  Item next_if_ready();  ///< null if it is not made yet

 private:
  struct Threads;
  Owned<Threads> threads_;
};

}  // namespace loading

/// Makes items first, first + 1 ... end-1 in several threads and hands them out in that order, at most `depth` ahead.
/// Without threads, next() makes them. Only one thread may consume.
template <typename T>
class OrderedWorkers {
 public:
  /// Makes an item; `stopped` turns true when nobody waits for it any more.
  using Produce = std::function<T(std::int64_t item, const std::atomic<bool>& stopped)>;

  /// The destructor waits for the items in production only.
  OrderedWorkers(Produce produce, std::int64_t first, std::int64_t end, int threads, std::int64_t depth)
      : producer_(
            [made = std::move(produce)](std::int64_t item, const std::atomic<bool>& stopped) {
              return std::make_shared<T>(made(item, stopped));
            },
            first, end, threads, depth) {}

  /// The next item; nothing after the last. An exception takes the place of its item.
  std::optional<T> next() { return taken(producer_.next()); }
  /// The next item if it is made already, without waiting or throwing.
  std::optional<T> next_if_ready() { return taken(producer_.next_if_ready()); }

 private:
  static std::optional<T> taken(const std::shared_ptr<void>& item) {
    if (!item) return std::nullopt;
    return std::move(*static_cast<T*>(item.get()));
  }

  loading::OrderedProducer producer_;
};

/// Runs `produce` in its own thread, at most `depth` items ahead of next(); where there are no threads, in next(). Only
/// one thread may consume. The destructor waits for the item in production only, not for items that nobody took.
template <typename T>
class Prefetcher {
 public:
  /// @param produce returns the next item, or nothing at the end; next() rethrows its exceptions
  explicit Prefetcher(std::function<std::optional<T>()> produce, std::size_t depth = 2)
      : producer_(
            [produce = std::move(produce), ended = false](std::int64_t,
                                                          const std::atomic<bool>&) mutable -> std::shared_ptr<void> {
              if (ended) return nullptr;
              ended = true;  // also where produce() throws
              std::optional<T> item = produce();
              if (!item) return nullptr;
              ended = false;
              return std::make_shared<T>(std::move(*item));
            },
            0, std::numeric_limits<std::int64_t>::max(), 1, static_cast<std::int64_t>(depth)) {}

  /// Items in the order they were produced, then nothing from then on. An exception is thrown once, after the items
  /// before it.
  std::optional<T> next() {
    if (done_) return std::nullopt;
    done_ = true;  // also where next() throws
    const std::shared_ptr<void> item = producer_.next();
    if (!item) return std::nullopt;
    done_ = false;
    return std::move(*static_cast<T*>(item.get()));
  }

 private:
  bool done_ = false;
  loading::OrderedProducer producer_;
};

}  // namespace etna::data
