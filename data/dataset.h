#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::data {

/// Random numbers of one sample or one shuffle: Philox4x32-10, a pure function of (seed, stream, position). Integer
/// arithmetic only, so that every machine and every number of worker threads draws the same.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  /// The numbers of one sample in one epoch.
  static Random of_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index);

  std::uint32_t bits();
  std::uint64_t bits64();
  /// Uniform in [0, end), without bias. @throws Error unless end > 0
  std::int64_t below(std::int64_t end);
  /// Uniform in [0, 1), of 53 bits.
  double uniform();
  /// True with this probability.
  bool chance(double probability) { return uniform() < probability; }
  /// 0 ... n-1, shuffled. @throws Error for a negative n
  std::vector<std::int64_t> permutation(std::int64_t n);
  void shuffle(std::vector<std::int64_t>& values);

 private:
  std::uint64_t seed_, stream_, block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  unsigned used_ = 4;
};

/// A sample, or a batch of samples: what a network gets and what it should answer. Either may be undefined.
struct Example {
  Tensor data, target;

  Example to(Device device) const;
};

/// Tensors of equal shape and dtype, stacked along a new first dimension; undefined if all are undefined.
/// @param what for errors: "data"
/// @throws ShapeError, DtypeError naming the first sample that differs
Tensor collate(const std::vector<Tensor>& samples, const std::string& what = "the tensor");
Example collate(const std::vector<Example>& samples);
/// Stacks the first tensors of all samples, the second ones, and so on.
std::vector<Tensor> collate(const std::vector<std::vector<Tensor>>& samples);

/// Samples by index. Item is Example, std::vector<Tensor>, Tensor, or a struct of your own (with a collate function).
///     struct Squares : data::Dataset<> {
///       std::int64_t size() const override { return 100; }
///       data::Example get(std::int64_t i) const override { return {scalar(i), scalar(i * i)}; }
///     };
template <typename Item = Example>
class Dataset {
 public:
  using item_type = Item;

  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// The sample at an index in [0, size()). Worker threads call it, several at once.
  virtual Item get(std::int64_t index) const = 0;
  /// The same with the random numbers of this sample in this epoch, for augmentation; the loader calls this one.
  virtual Item sample(std::int64_t index, Random&) const { return get(index); }
  /// All of a batch at once, where that is cheaper than sample by sample; nothing where it is not.
  virtual std::optional<Item> batch(std::span<const std::int64_t>) const { return std::nullopt; }
  /// Where its tensors are. Worker threads serve datasets on the CPU only.
  virtual Device device() const { return {}; }
};

template <typename Item>
using DatasetPtr = std::shared_ptr<const Dataset<Item>>;

/// A dataset by value (moved into shared ownership) or a shared pointer to one: what functions here accept.
template <typename D>
requires std::derived_from<D, Dataset<typename D::item_type>> DatasetPtr<typename D::item_type> share(D dataset) {
  return std::make_shared<const D>(std::move(dataset));
}
template <typename D>
DatasetPtr<typename D::item_type> share(std::shared_ptr<D> dataset) {
  if (!dataset) throw Error("dataset: the pointer is null");
  return dataset;
}
template <typename D>
using ItemOf = typename decltype(share(std::declval<D>()))::element_type::item_type;

namespace indexing {
/// @throws IndexError unless index is in [0, size)
void check_index(const char* dataset, std::int64_t index, std::int64_t size);
/// @throws ShapeError unless all tensors have the same first size; returns it
std::int64_t common_size(const std::vector<Tensor>& tensors);
Tensor row(const Tensor& tensor, std::int64_t index);
Tensor rows(const Tensor& tensor, std::span<const std::int64_t> indices);
/// Sizes of the parts of a random split. @throws Error
std::vector<std::int64_t> lengths_of(std::int64_t size, const std::vector<double>& fractions);
void check_lengths(std::int64_t size, const std::vector<std::int64_t>& lengths);
}  // namespace indexing

/// The rows of two tensors, on any device: sample i is {data[i], target[i]}.
class TensorDataset : public Dataset<Example> {
 public:
  /// @throws ShapeError if they have no first dimension, or differ in it
  TensorDataset(Tensor data, Tensor target);
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override;
  std::optional<Example> batch(std::span<const std::int64_t> indices) const override;
  Device device() const override { return data_.device(); }
  const Tensor& data() const { return data_; }
  const Tensor& target() const { return target_; }

 private:
  Tensor data_, target_;
  std::int64_t size_;
};

/// The rows of any number of tensors of one device.
class TensorListDataset : public Dataset<std::vector<Tensor>> {
 public:
  /// @throws ShapeError as TensorDataset; DeviceError for tensors on several devices
  explicit TensorListDataset(std::vector<Tensor> tensors);
  std::int64_t size() const override { return size_; }
  std::vector<Tensor> get(std::int64_t index) const override;
  std::optional<std::vector<Tensor>> batch(std::span<const std::int64_t> indices) const override;
  Device device() const override { return tensors_.front().device(); }

 private:
  std::vector<Tensor> tensors_;
  std::int64_t size_;
};

/// Some samples of a dataset, in the order given.
template <typename Item>
class Subset : public Dataset<Item> {
 public:
  /// @throws IndexError for an index outside the dataset
  Subset(DatasetPtr<Item> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (const std::int64_t index : indices_) indexing::check_index("Subset", index, dataset_->size());
  }
  template <typename D>
  Subset(D dataset, std::vector<std::int64_t> indices) : Subset(share(std::move(dataset)), std::move(indices)) {}

  const std::vector<std::int64_t>& indices() const { return indices_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Item get(std::int64_t index) const override { return dataset_->get(original(index)); }
  Item sample(std::int64_t index, Random& random) const override { return dataset_->sample(original(index), random); }
  std::optional<Item> batch(std::span<const std::int64_t> indices) const override {
    std::vector<std::int64_t> originals;
    for (const std::int64_t index : indices) originals.push_back(original(index));
    return dataset_->batch(originals);
  }
  Device device() const override { return dataset_->device(); }

 private:
  std::int64_t original(std::int64_t index) const {
    indexing::check_index("Subset", index, size());
    return indices_[static_cast<std::size_t>(index)];
  }

  DatasetPtr<Item> dataset_;
  std::vector<std::int64_t> indices_;
};
template <typename D>
Subset(D, std::vector<std::int64_t>) -> Subset<ItemOf<D>>;

/// One dataset after the other.
template <typename Item>
class ConcatDataset : public Dataset<Item> {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr<Item>> datasets) : datasets_(std::move(datasets)) {
    if (datasets_.empty()) throw Error("ConcatDataset: there are no datasets to join");
    for (const auto& dataset : datasets_) {
      if (!dataset) throw Error("ConcatDataset: a dataset is null");
      ends_.push_back(size() + dataset->size());
    }
  }
  template <typename D, typename... More>
  requires(sizeof...(More) > 0) explicit ConcatDataset(D first, More... more)
      : ConcatDataset(std::vector<DatasetPtr<Item>>{share(std::move(first)), share(std::move(more))...}) {}

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Item get(std::int64_t index) const override {
    const auto [dataset, within] = find(index);
    return dataset->get(within);
  }
  Item sample(std::int64_t index, Random& random) const override {
    const auto [dataset, within] = find(index);
    return dataset->sample(within, random);
  }
  Device device() const override {
    for (const auto& dataset : datasets_) {
      if (!dataset->device().is_cpu()) return dataset->device();
    }
    return {};
  }

 private:
  std::pair<const Dataset<Item>*, std::int64_t> find(std::int64_t index) const {
    indexing::check_index("ConcatDataset", index, size());
    std::size_t at = 0;
    while (index >= ends_[at]) ++at;
    return {datasets_[at].get(), at == 0 ? index : index - ends_[at - 1]};
  }

  std::vector<DatasetPtr<Item>> datasets_;
  std::vector<std::int64_t> ends_;
};
template <typename Item>
explicit ConcatDataset(std::vector<DatasetPtr<Item>>) -> ConcatDataset<Item>;
template <typename D, typename... More>
requires(sizeof...(More) > 0) explicit ConcatDataset(D, More...)->ConcatDataset<ItemOf<D>>;

/// A dataset with a function applied to each sample. The function takes the item, or the item and the random numbers of
/// this sample in this epoch: augmentation then does not depend on workers or on the order of loading.
template <typename From, typename Item>
class TransformedDataset : public Dataset<Item> {
 public:
  using Function = std::function<Item(From, Random&)>;
  TransformedDataset(DatasetPtr<From> dataset, Function function)
      : dataset_(std::move(dataset)), function_(std::move(function)) {}
  std::int64_t size() const override { return dataset_->size(); }
  /// With the random numbers of seed 0, epoch 0.
  Item get(std::int64_t index) const override {
    Random random = Random::of_sample(0, 0, static_cast<std::uint64_t>(index));
    return sample(index, random);
  }
  Item sample(std::int64_t index, Random& random) const override {
    return function_(dataset_->sample(index, random), random);
  }
  Device device() const override { return dataset_->device(); }

 private:
  DatasetPtr<From> dataset_;
  Function function_;
};

/// transformed(dataset, [](Example e) { … }) or transformed(dataset, [](Example e, Random& random) { … })
template <typename D, typename F>
auto transformed(D dataset, F function) {
  using From = ItemOf<D>;
  if constexpr (std::is_invocable_v<F, From, Random&>) {
    using Item = std::invoke_result_t<F, From, Random&>;
    return TransformedDataset<From, Item>(share(std::move(dataset)), std::move(function));
  } else {
    using Item = std::invoke_result_t<F, From>;
    return TransformedDataset<From, Item>(share(std::move(dataset)),
                                          [f = std::move(function)](From item, Random&) { return f(std::move(item)); });
  }
}

/// Shuffles a dataset by a seed and cuts it into parts of the lengths given, which must add up to its size.
/// @throws Error listing the numbers if they do not
template <typename D>
std::vector<Subset<ItemOf<D>>> random_split(D dataset, const std::vector<std::int64_t>& lengths,
                                            std::uint64_t seed = 0) {
  const auto shared = share(std::move(dataset));
  indexing::check_lengths(shared->size(), lengths);
  const std::vector<std::int64_t> order = Random(seed).permutation(shared->size());
  std::vector<Subset<ItemOf<D>>> parts;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    parts.emplace_back(shared, std::vector<std::int64_t>(at, at + length));
    at += length;
  }
  return parts;
}
/// The same by fractions that add up to 1; what rounding leaves goes to the first parts, one each.
template <typename D>
std::vector<Subset<ItemOf<D>>> random_split(D dataset, const std::vector<double>& fractions, std::uint64_t seed = 0) {
  const auto shared = share(std::move(dataset));
  return random_split(shared, indexing::lengths_of(shared->size(), fractions), seed);
}

/// random_split(dataset, {50'000, 10'000}), random_split(dataset, {0.9, 0.1})
template <typename D, typename N>
requires(std::is_arithmetic_v<N>) std::vector<Subset<ItemOf<D>>> random_split(D dataset, std::initializer_list<N> parts,
                                                                              std::uint64_t seed = 0) {
  using Number = std::conditional_t<std::is_floating_point_v<N>, double, std::int64_t>;
  return random_split(std::move(dataset), std::vector<Number>(parts.begin(), parts.end()), seed);
}

}  // namespace etna::data
