#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>
#include <etna/nn/module.h>
#include <etna/optim/optimizer.h>
#include <etna/optim/schedule.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/evaluator.h>
#include <etna/train/runs.h>

namespace etna::distributed {
class DataParallel;
}

namespace etna::training {

struct FitOptions {
  std::int64_t epochs = 10;
  Device device = {};  ///< of the model
  DType precision = f32;
  bool captured = true;                  ///< capture a step once and replay it
  optim::Scheduler* schedule = nullptr;  ///< stepped with the optimizer
  FilePath folder = {};                  ///< of the run: metrics and checkpoints; empty: nothing is written
  ExistingRun existing = ExistingRun::refuse;
  double checkpoint_seconds = 30;
  std::int64_t patience = 0;  ///< epochs without a better validation loss before the end; 0: any number
  bool progress = true;       ///< false: nothing is printed
  /// Of the model, where every rank of a group calls fit() with a loader of its own part (data::DistributedSampler).
  /// Rank 0 prints, validates and writes.
  distributed::DataParallel* parallel = nullptr;
};

enum class Ending { finished, patience, interrupted };

/// What fit() returns.
struct FitResult {
  std::int64_t steps = 0, epochs = 0;
  double loss = 0;                        ///< mean over the last whole epoch
  std::optional<double> valid_loss = {};  ///< the best
  Ending ending = Ending::finished;       ///< all epochs, no better loss, or Ctrl-C
  int exit_code = 0;                      ///< 130 after Ctrl-C: fit() again with ExistingRun::resume goes on
};

namespace detail {

/// fit() without its loop over batches, which knows the loader's type.
class Fit {
 public:
  /// @param validate gives the mean loss over the validation batches, or is empty
  Fit(nn::Module& model, Evaluator::Metric loss, optim::Optimizer& optimizer, const CheckpointItem& loader,
      std::int64_t steps_per_epoch, std::function<double(Evaluator&)> validate, const FitOptions& options);
  ~Fit();
  bool go_on() const;
  /// @param x, y on any device
  void step(const Tensor& x, const Tensor& y);
  FitResult finish();

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace detail

/// A whole training loop, for programs that need no loop of their own: captured steps, progress, validation after each
/// epoch, metrics, checkpoints, Ctrl-C, and a run that goes on where it stopped, bit for bit.
///     auto loss = [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); };
///     training::FitOptions options = {.epochs = 5, .device = device};
///     return training::fit(model, loss, optimizer, loader, options, &valid).exit_code;
/// The model ends with its last weights. With a folder and `valid`, the best are in a file:
///     load(training::find_checkpoints("runs/first/checkpoints").best, {{"model", model}});
/// @param loss of a batch, 0-d; runs under autocast
/// @param loader a data::DataLoader, best with drop_last: batches of one shape are captured once
/// @param valid its batches are read after each epoch; may be null
/// @throws FormatError for a folder that cannot be used, Error if the loss becomes NaN or infinite, or for a patience
/// without `valid`
template <typename Loader, typename Valid = Loader>
FitResult fit(nn::Module& model, Evaluator::Metric loss, optim::Optimizer& optimizer, Loader& loader,
              const FitOptions& options = {}, Valid* valid = nullptr) {
  std::function<double(Evaluator&)> validate;
  if (valid != nullptr)
    validate = [valid, bar = options.progress](Evaluator& evaluator) {
      return evaluator.mean(*valid, bar ? valid->size() : 0);
    };
  detail::Fit run(model, std::move(loss), optimizer, {"loader", loader}, loader.size(), std::move(validate), options);
  while (run.go_on()) {
    for (const auto& batch : loader) {
      const auto& [x, y] = batch;
      run.step(x, y);
      if (!run.go_on()) break;
    }
  }
  return run.finish();
}

}  // namespace etna::training
