#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <etna/tensor/capture.h>

namespace etna::optim {
class GradScaler;
class Optimizer;
class Scheduler;
}  // namespace etna::optim

namespace etna::training {

struct TrainingStepOptions {
  Device device = {};                    ///< of the model
  DType precision = f32;                 ///< what products compute in; f16 scales the loss
  bool captured = true;                  ///< capture a step once and replay it
  bool varied_shapes = false;            ///< batches of several shapes are expected: each is captured
  std::int64_t accumulation = 1;         ///< batches whose gradients make one step
  optim::Scheduler* schedule = nullptr;  ///< stepped with the optimizer
  /// What a batch's gradients are multiplied by, for batches of unequal numbers of tokens; empty: 1.
  std::function<double(const Tensor& x)> weight = {};
  /// Gets the loss of each step, on the device and as part of the captured step: RunningSum::add() for example.
  std::function<void(const Tensor& loss)> after = {};
};

/// One step of training: forward under autocast, backward, optimizer, schedule.
///     training::TrainingStep step(loss, optimizer, {.device = device, .schedule = &schedule});
///     for (const auto& [x, y] : loader) Tensor value = step(x, y);
class TrainingStep {
 public:
  using Loss = std::function<Tensor(const Tensor& x, const Tensor& y)>;  ///< returns a 0-d tensor

  /// @param optimizer outlives the step, as does what the functions refer to
  TrainingStep(Loss loss, optim::Optimizer& optimizer, TrainingStepOptions options = {});
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// @param x, y on any device; the rows of all accumulated batches, one batch after the other
  /// @return the mean loss of the batches, 0-d on the device; the next step may overwrite it
  Tensor operator()(const Tensor& x, const Tensor& y);
  /// A step whose loss finds its batch by itself, as data::ResidentBatches do, and gets undefined tensors.
  Tensor operator()();

  optim::GradScaler& scaler();
  /// Of the captured step; nothing before there is one.
  std::optional<CaptureReport> report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etna::training
