#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

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
  std::unique_ptr<Threads> threads_;
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

}  // namespace etna::data
