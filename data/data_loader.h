#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/data/dataset.h>
#include <etna/data/prefetcher.h>
#include <etna/data/sampler.h>
#include <etna/device/error.h>
#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;                       ///< of the shuffle and of the samples' random numbers
  int num_workers = 0;                          ///< threads; 0: batches are made in the caller's thread, when it asks
  bool drop_last = false;                       ///< leave out a last batch that is smaller
  std::int64_t prefetch_factor = 2;             ///< batches made ahead, for each worker
  Device device = {};                           ///< batches arrive there; the next one is uploaded while a step runs
  std::shared_ptr<const Sampler> sampler = {};  ///< instead of shuffle
  std::shared_ptr<const BatchSampler> batch_sampler = {};  ///< instead of batch_size, shuffle, sampler and drop_last
};

/// Where a loader stands: `batch` batches of `epoch` were handed out.
struct DataLoaderState {
  std::uint64_t epoch = 0;
  std::int64_t batch = 0;

  friend bool operator==(const DataLoaderState&, const DataLoaderState&) = default;
};

/// A sample that a dataset, transform or collate function could not make. std::rethrow_if_nested() gets the cause.
struct SampleError : Error {
  SampleError(std::int64_t index, const std::string& text) : Error(text), index(index) {}
  std::int64_t index;  ///< in the dataset; -1 if the batch as a whole failed
};

namespace loading {
/// The batches that the options describe, for `size` samples. @throws Error for options that contradict each other
std::shared_ptr<const BatchSampler> batch_sampler(const DataLoaderOptions& options, std::int64_t size, Device data);
/// Throws the exception being handled, nested in a SampleError that says where it happened.
[[noreturn]] void rethrow_at(std::int64_t index, DataLoaderState state);
void check_state(DataLoaderState state, std::int64_t batches);
std::map<std::string, Tensor> state_dict(DataLoaderState state, std::uint64_t seed, std::int64_t batches);
DataLoaderState load_state_dict(const std::map<std::string, Tensor>& state, std::uint64_t seed, std::int64_t batches);
}  // namespace loading

template <typename Batch>
concept MovesToDevice = requires(const Batch& batch, Device device) {
  { batch.to(device) } -> std::convertible_to<Batch>;
};

/// Batches of a dataset, epoch after epoch:
///
///     data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4, .device = device});
///     for (int epoch = 0; epoch < 10; ++epoch)
///       for (auto [x, y] : loader) train(x, y);
///
/// Each range-for is the next epoch. Order and augmentation depend on seed and epoch alone: not on the machine, the
/// number of workers or their timing. state() and set_state() resume a run at the next batch, bit for bit. One thread
/// uses a loader, outside captured steps; its workers are threads of this process. A sample that fails is a SampleError
/// in the loop, where its batch would have been; `loader.set_state(loader.state())` goes on with the batch after it.
template <typename Item, typename Batch = Item>
class DataLoader {
 public:
  using Collate = std::function<Batch(const std::vector<Item>&)>;

  /// @param dataset by value or as a shared pointer @param collate makes a batch of samples; left out, collate()
  /// @throws Error for options out of range or in contradiction
  template <typename D>
  requires std::same_as<ItemOf<D>, Item>
  explicit DataLoader(D dataset, DataLoaderOptions options = {})
      : DataLoader(share(std::move(dataset)), std::move(options), Collate(), 0) {
    static_assert(std::same_as<Item, Batch>);
  }
  template <typename D, typename F>
  requires std::same_as<ItemOf<D>, Item> DataLoader(D dataset, DataLoaderOptions options, F collate)
      : DataLoader(share(std::move(dataset)), std::move(options), Collate(std::move(collate)), 0) {}

  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches per epoch.
  std::int64_t size() const { return batches_->size(); }
  const Dataset<Item>& dataset() const { return *dataset_; }

  DataLoaderState state() const { return state_; }
  /// The next range-for continues there. Ends the one that runs, if any. @throws Error for a batch outside the epoch
  void set_state(DataLoaderState state) {
    loading::check_state(state, size());
    stop();
    state_ = state;
    resumes_ = true;
  }
  /// state(), for checkpoints; with the seed and the number of batches, which must be the same where it is loaded.
  std::map<std::string, Tensor> state_dict() const { return loading::state_dict(state_, options_.seed, size()); }
  /// @throws Error for the state of a loader that differs
  void load_state_dict(const std::map<std::string, Tensor>& state) {
    set_state(loading::load_state_dict(state, options_.seed, size()));
  }

  struct End {};
  class Iterator {
   public:
    explicit Iterator(DataLoader& loader) : loader_(&loader), batch_(loader.next()) {}
    Batch& operator*() { return *batch_; }
    Batch* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_.reset();
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(End) const { return !batch_.has_value(); }

   private:
    DataLoader* loader_;
    std::optional<Batch> batch_;
  };
  /// Starts the next epoch; after set_state(), continues the one that it names. An epoch that was left before its end
  /// is over.
  Iterator begin() {
    start();
    return Iterator(*this);
  }
  End end() const { return {}; }

 private:
  DataLoader(DatasetPtr<Item> dataset, DataLoaderOptions options, Collate collate, int)
      : dataset_(std::move(dataset)),
        options_(std::move(options)),
        collate_(std::move(collate)),
        batches_(loading::batch_sampler(options_, dataset_->size(), dataset_->device())) {
    whole_ = !collate_;
    if constexpr (requires(const std::vector<Item>& items) {
                    { data::collate(items) } -> std::same_as<Batch>;
                  }) {
      if (!collate_) collate_ = [](const std::vector<Item>& items) { return data::collate(items); };
    }
    if (!collate_) throw Error("data loader: give it a collate function, which makes a batch of samples of this type");
  }

  void start() {
    stop();
    if (!resumes_ && state_.batch > 0) state_ = {state_.epoch + 1, 0};
    resumes_ = false;
    auto list = std::make_shared<const std::vector<std::vector<std::int64_t>>>(batches_->batches(state_.epoch));
    loading::check_state(state_, static_cast<std::int64_t>(list->size()));
    const auto count = static_cast<std::int64_t>(list->size());
    workers_ = std::make_unique<OrderedWorkers<Batch>>(
        [this, list, epoch = state_.epoch](std::int64_t item, const std::atomic<bool>& stopped) {
          return make((*list)[static_cast<std::size_t>(item)], {epoch, item}, stopped);
        },
        state_.batch, count, options_.num_workers, options_.num_workers * options_.prefetch_factor);
  }

  void stop() {
    workers_.reset();
    ahead_.reset();
  }

  std::optional<Batch> next() {
    if (!workers_) return std::nullopt;
    std::optional<Batch> batch;
    try {
      batch = ahead_ ? std::exchange(ahead_, std::nullopt) : uploaded(workers_->next());
    } catch (...) {
      ++state_.batch;
      throw;
    }
    if (!batch) {
      stop();
      state_ = {state_.epoch + 1, 0};
      return std::nullopt;
    }
    ++state_.batch;
    if (!options_.device.is_cpu()) ahead_ = uploaded(workers_->next_if_ready());
    return batch;
  }

  std::optional<Batch> uploaded(std::optional<Batch> batch) const {
    if (!batch || options_.device.is_cpu()) return batch;
    if constexpr (MovesToDevice<Batch>) {
      return batch->to(options_.device);
    } else if constexpr (std::same_as<Batch, std::vector<Tensor>>) {
      for (Tensor& tensor : *batch) tensor = tensor.to(options_.device);
      return batch;
    } else {
      throw Error("data loader: this type of batch has no to(device); leave DataLoaderOptions::device the CPU");
    }
  }

  /// Runs in the workers, so it reads what no other thread changes.
  Batch make(const std::vector<std::int64_t>& indices, DataLoaderState at, const std::atomic<bool>& stopped) const {
    const GradMode off(false);
    std::int64_t index = -1;
    try {
      if constexpr (std::same_as<Item, Batch>) {
        if (whole_) {
          if (std::optional<Item> batch = dataset_->batch(indices)) return std::move(*batch);
        }
      }
      std::vector<Item> items;
      items.reserve(indices.size());
      for (const std::int64_t wanted : indices) {
        index = wanted;
        if (stopped) throw Error("the loader is gone");
        Random random = Random::of_sample(options_.seed, at.epoch, static_cast<std::uint64_t>(wanted));
        items.push_back(dataset_->sample(wanted, random));
      }
      index = -1;
      return collate_(items);
    } catch (...) {
      loading::rethrow_at(index, at);
    }
  }

  const DatasetPtr<Item> dataset_;
  const DataLoaderOptions options_;
  Collate collate_;
  bool whole_ = false;  ///< the dataset may make batches at once: nobody gave a collate function
  const std::shared_ptr<const BatchSampler> batches_;
  DataLoaderState state_;
  bool resumes_ = false;
  std::optional<Batch> ahead_;                      ///< on the device already
  std::unique_ptr<OrderedWorkers<Batch>> workers_;  ///< of the epoch that runs; last, so that it ends first
};

template <typename D>
explicit DataLoader(D, DataLoaderOptions = {}) -> DataLoader<ItemOf<D>>;
template <typename D, typename F>
DataLoader(D, DataLoaderOptions, F)
    -> DataLoader<ItemOf<D>, std::decay_t<std::invoke_result_t<F, const std::vector<ItemOf<D>>&>>>;

// ---- iterable datasets

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
