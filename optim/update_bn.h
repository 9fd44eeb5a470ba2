#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/tensor.h>

namespace etna::optim {

namespace batches {
/// What a model gets of a batch: the batch, its `data`, or its first tensor.
template <typename Batch>
Tensor input_of(const Batch& batch) {
  if constexpr (requires { Tensor(batch); })
    return batch;
  else if constexpr (requires { Tensor(batch.data); })
    return batch.data;
  else
    return batch[0];
}

/// The norms of a model while their statistics are measured again: reset, averaging over all batches.
class Measured {
 public:
  template <typename Model>
  explicit Measured(Model& model) {
    model.apply([this](auto& module) { add(dynamic_cast<KeepsRunningStatistics*>(&module)); });
  }
  ~Measured();
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;
  bool empty() const { return norms_.empty(); }

 private:
  void add(KeepsRunningStatistics* norm);

  std::vector<std::pair<KeepsRunningStatistics*, std::optional<double>>> norms_;
};

/// Puts a model into training mode, and back.
template <typename Model>
class Training {
 public:
  explicit Training(Model& model) : model_(model), before_(model.training()) { model.train(true); }
  ~Training() { model_.train(before_); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

 private:
  Model& model_;
  bool before_;
};
}  // namespace batches

/// Measures the running statistics of every BatchNorm of a model again, over all batches: after averaging, those that
/// training kept belong to other weights.
///     average.swap();
///     optim::update_bn(loader, model);
/// The model runs without a tape, in training mode; afterwards it is in the mode of before, all of its modules alike.
/// @param loader what range-for takes (a DataLoader, a vector of tensors), or a function that returns std::optional of
/// the next batch. A batch is a tensor, or has the input as `data` or as its first tensor
/// @param device where batches go first; by default they stay where they are
template <typename Loader, typename Model>
void update_bn(Loader&& loader, Model& model, std::optional<Device> device = {}) {
  const batches::Measured norms(model);
  if (norms.empty()) return;
  const GradMode off(false);
  const batches::Training<Model> training(model);
  const auto run = [&](const auto& batch) {
    const Tensor x = batches::input_of(batch);
    model(device ? x.to(*device) : x);
  };
  if constexpr (requires { loader.begin(); }) {
    for (auto&& batch : loader) run(batch);
  } else {
    while (auto batch = loader()) run(*batch);
  }
}

}  // namespace etna::optim
