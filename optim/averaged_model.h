#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/tensor.h>

namespace etna::optim {

struct AverageOptions {
  double decay = -1;         ///< of an exponential average (EMA), in [0, 1); negative: all updates weigh alike (SWA)
  bool use_buffers = false;  ///< averages floating buffers too; else they are copied
};

/// The average of a model's weights over training (SWA: Izmailov et al. 2018), kept beside the model. The first update
/// copies; later ones are one dispatch, and a captured step may contain them. Averages of f16 and bf16 weights are f32.
///     optim::AveragedModel average(model, {.decay = 0.999});
///     for (...) { ...; optimizer.step(); average.update(); }
///     average.swap();  // the model now holds the average
///     evaluate(model);
///     average.swap();  // and its own weights again
/// After averaging, the running statistics of batch norms belong to other weights: call update_bn(), or use_buffers.
class AveragedModel {
 public:
  /// @param model has named_parameters() and named_buffers(), and outlives the average @throws Error for decay >= 1
  template <typename Model>
  explicit AveragedModel(const Model& model, AverageOptions options = {}) : options_(options) {
    for (const auto& x : model.named_parameters()) add(x.name, x.tensor, true);
    for (const auto& x : model.named_buffers()) add(x.name, x.tensor, options.use_buffers);
    check();
  }

  AveragedModel(const AveragedModel&) = delete;  // captured steps refer to it
  AveragedModel& operator=(const AveragedModel&) = delete;

  /// Takes the model's weights into the average.
  void update();
  /// The first call keeps the model's weights aside and copies the average into the model; the second call copies them
  /// back. In between, train nothing: update() is an error.
  void swap();
  /// Copies the average into the model.
  void apply() const;
  std::int64_t updates() const { return updates_; }

  /// The average under the model's names, to load into a model of its own; shares storage.
  std::map<std::string, Tensor> averaged() const;
  /// averaged(), and "n_averaged": the number of updates, f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies values. @throws Error listing every name that does not fit; then nothing changes
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  struct Entry {
    std::string name;
    Tensor model, average;
    bool averaged;
    Tensor own = {};  ///< the model's weights between two calls of swap()
  };
  void add(const std::string& name, const Tensor& x, bool averaged);
  void check() const;
  void follow();

  AverageOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
};

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
