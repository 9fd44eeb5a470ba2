#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <etna/device/memory.h>
#include <etna/device/owned.h>
#include <etna/tensor/capture.h>

namespace etna::optim {
class GradScaler;
class Optimizer;
class Scheduler;
}  // namespace etna::optim

namespace etna::distributed {
class DataParallel;
}

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
  /// Of a model that several processes train: gradients are reduced once a step, and the loss is the mean over all
  /// ranks. Where their collectives cannot be captured (distributed::can_capture()), steps run op by op.
  distributed::DataParallel* parallel = nullptr;
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
  Owned<State> state_;
};

/// The memory that training needs at the most, for one size of batch. Bytes.
struct MemoryForecast {
  std::int64_t batch = 0;
  BytesByUse by_use{};
  std::uint64_t available = 0;     ///< to the training, when the forecast was made
  std::int64_t largest_batch = 0;  ///< that should fit, with some room left to fragmentation

  std::uint64_t total() const;
  bool fits() const { return total() <= available; }
  /// "84.0 MiB: 50.0 MiB captured steps, 34.0 MiB weights; 12.1 GiB are free, enough for batches of 9,000"
  std::string str() const;
  /// Prints a line, and a warning with advice where it does not fit, by the names of a Recipe's settings.
  void print() const;
};

/// Measures what batches of at most 16 need and extrapolates: each use is a constant plus a multiple of the batch. If
/// that says that the batch itself fits well, it is measured, too, with half of it: kernels take other ways, with other
/// temporary memory, as sizes grow. Leaves the random state as it was; gives cached memory back to the system.
/// @param steps makes a model, its optimizer and a few training steps with batches of this size, and drops all of it
/// @throws OutOfMemory where not even a batch of 2 fits
///
///     auto forecast = training::forecast_memory(device, 64, [&](std::int64_t batch) {
///       Net net;
///       net.to(device);
///       optim::AdamW optimizer(net.parameters(), {});
///       for (int i = 0; i < 2; ++i) step(net, optimizer, batch);
///     });
MemoryForecast forecast_memory(Device device, std::int64_t batch, const std::function<void(std::int64_t batch)>& steps);

}  // namespace etna::training
