#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <etna/data/ordered_workers.h>

namespace etna::data {

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
