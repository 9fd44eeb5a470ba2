#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <etna/data/dataset.h>
#include <etna/data/prefetcher.h>
#include <etna/device/error.h>
#include <etna/tensor/op.h>

namespace etna::data {

/// Samples that come one after the other and cannot be asked for by number: lines of a large file, a socket.
template <typename Item = Example>
class IterableDataset {
 public:
  using item_type = Item;
  virtual ~IterableDataset() = default;
  /// Begins an epoch: a function that gives the next sample, or nothing at the end. Another thread calls it.
  virtual std::function<std::optional<Item>()> iterate(std::uint64_t epoch) const = 0;
};

/// One iterable dataset after the other.
///     data::ChainDataset all(first, second);
template <typename Item = Example>
class ChainDataset : public IterableDataset<Item> {
 public:
  using Part = std::shared_ptr<const IterableDataset<Item>>;
  explicit ChainDataset(std::vector<Part> datasets) : datasets_(std::move(datasets)) {
    for (const Part& dataset : datasets_) {
      if (!dataset) throw Error("ChainDataset: a dataset is null");
    }
  }
  template <typename D, typename... More>
  explicit ChainDataset(std::shared_ptr<D> first, std::shared_ptr<More>... more)
      : ChainDataset(std::vector<Part>{std::move(first), std::move(more)...}) {}

  std::function<std::optional<Item>()> iterate(std::uint64_t epoch) const override {
    return [datasets = datasets_, epoch, at = std::size_t{0},
            next = std::function<std::optional<Item>()>()]() mutable -> std::optional<Item> {
      while (at < datasets.size()) {
        if (!next) next = datasets[at]->iterate(epoch);
        if (std::optional<Item> item = next()) return item;
        next = nullptr;
        ++at;
      }
      return std::nullopt;
    };
  }

 private:
  std::vector<Part> datasets_;
};
template <typename D, typename... More>
explicit ChainDataset(std::shared_ptr<D>, std::shared_ptr<More>...) -> ChainDataset<typename D::item_type>;

/// Batches of an IterableDataset, made ahead by one thread. Each range-for is the next epoch.
///     for (auto [x, y] : data::IterableLoader<>(dataset, 32)) …
template <typename Item = Example>
class IterableLoader {
 public:
  /// @throws Error for a batch_size below 1
  IterableLoader(std::shared_ptr<const IterableDataset<Item>> dataset, std::int64_t batch_size, bool drop_last = false,
                 std::size_t prefetch = 2)
      : dataset_(std::move(dataset)), batch_size_(batch_size), drop_last_(drop_last), prefetch_(prefetch) {
    if (!dataset_ || batch_size < 1) throw Error("IterableLoader: needs a dataset and a batch_size of at least 1");
  }

  /// Batches to leave out at the beginning of the next range-for, to resume a run: they are read and dropped.
  void skip(std::int64_t batches) { skip_ = batches; }
  /// The epoch of the next range-for.
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  struct End {};
  class Iterator {
   public:
    explicit Iterator(IterableLoader& loader) : loader_(&loader) { ++*this; }
    Item& operator*() { return *batch_; }
    Item* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->batches_->next();
      return *this;
    }
    bool operator==(End) const { return !batch_.has_value(); }

   private:
    IterableLoader* loader_;
    std::optional<Item> batch_;
  };
  Iterator begin() {
    batches_.reset();
    batches_ = std::make_unique<Prefetcher<Item>>(
        [next = dataset_->iterate(epoch_++), size = batch_size_, drop = drop_last_,
         skip = std::exchange(skip_, 0)]() mutable -> std::optional<Item> {
          const GradMode off(false);
          while (true) {
            std::vector<Item> items;
            while (static_cast<std::int64_t>(items.size()) < size) {
              std::optional<Item> item = next();
              if (!item) break;
              items.push_back(std::move(*item));
            }
            if (items.empty() || (drop && static_cast<std::int64_t>(items.size()) < size)) return std::nullopt;
            if (skip-- > 0) continue;
            skip = 0;
            return collate(items);
          }
        },
        prefetch_);
    return Iterator(*this);
  }
  End end() const { return {}; }

 private:
  std::shared_ptr<const IterableDataset<Item>> dataset_;
  std::int64_t batch_size_;
  bool drop_last_;
  std::size_t prefetch_;
  std::int64_t skip_ = 0;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<Prefetcher<Item>> batches_;
};

}  // namespace etna::data
