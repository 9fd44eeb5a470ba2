#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <etna/device/error.h>
#include <etna/device/file_path.h>
#include <etna/device/owned.h>
#include <etna/nn/module.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/runs.h>

namespace etna::training {

/// The loss became NaN or infinite.
struct NonFiniteLoss : Error {
  using Error::Error;
};

struct TrainingLoopOptions {
  std::int64_t steps = 0;            ///< of the whole run
  std::int64_t steps_per_epoch = 1;  ///< epochs end at multiples of it
  std::int64_t tokens_per_step = 0;  ///< for tokens/s; 0: progress counts steps
  Device device = {};                ///< of the model

  /// Mean training loss of the epoch that ends; may wait for the device. Empty: none is logged.
  std::function<double()> epoch_loss = {};
  std::function<double()> validate = {};  ///< the validation loss; empty: there is no validation
  std::int64_t validate_every = 0;        ///< steps; 0: after each epoch
  std::int64_t patience = 0;              ///< validations without a better loss before the end; 0: any number

  FilePath folder = {};                    ///< of the run, which a RunFolder holds; empty: nothing is written
  std::vector<CheckpointItem> items = {};  ///< all that changes, `step` too
  Metadata metadata = {};                  ///< of checkpoints
  std::int64_t keep = 2;                   ///< newest checkpoints
  double checkpoint_seconds = 30;          ///< between checkpoints
  std::vector<std::string> columns = {};   ///< of metrics.csv; empty: loss, lr, epoch_loss, valid_loss
  bool resume = false;                     ///< from the newest checkpoint
  std::int64_t reported = -1;  ///< a run resumed at this step, with none to go, changes nothing; negative: it does

  bool progress = true;  ///< false: nothing is printed
  /// Every rank of a group runs this loop: rank 0 prints, validates and writes, all end at the same step. To resume,
  /// all need to see the folder.
  bool distributed = false;
  /// Ranks hold parts of the items' state or of the model (a sharded optimizer, FullyShardedDataParallel): all of them
  /// validate, and give rank 0 their parts of a checkpoint.
  bool sharded = false;
  bool interruptible = true;  ///< Ctrl-C ends the loop after a step
  bool perplexity = false;    ///< the loss is a mean over tokens, whose perplexity is shown too
  bool epoch_lines = false;   ///< a line for each epoch, with both losses; else one for each validation
  std::function<bool(std::int64_t step)> reads = {};   ///< whether a step's loss is read; empty: every tenth
  std::string command = {}, preset = {};               ///< of the summary
  std::string name = {};                               ///< before errors: "fit"
  std::string advice = "try a smaller learning rate";  ///< where the loss is lost
};

/// What surrounds the steps of a training run: progress, metrics, validation, checkpoints, early stopping, Ctrl-C. A
/// run that was stopped and resumed ends with the bits of one that was not, if `items` are all of its state.
///     std::int64_t step = 0;
///     training::TrainingLoop loop(step, {.steps = 600, .steps_per_epoch = 100, .device = device,
///                                        .validate = [&] { return evaluator.mean(valid); },
///                                        .folder = folder.path(), .items = {{"model", model}, {"step", step}}});
///     while (loop.go_on()) {
///       const Tensor loss = train_step(...);
///       ++step;
///       loop.after_step(optimizer.lr(), loss);
///     }
///     loop.finish();
class TrainingLoop {
 public:
  /// @param step how many were made: the caller counts it, a checkpoint restores it. It outlives the loop.
  /// @throws FormatError for a checkpoint that does not fit, or a full disk
  TrainingLoop(const std::int64_t& step, TrainingLoopOptions options);
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// True where options.reported is the step that the run was resumed at, and the last: call nothing else then.
  bool nothing_left() const;
  /// False at the end, after Ctrl-C, and where validation stops improving.
  bool go_on() const;
  /// @param lr of the step @param loss 0-d; it is read when it has arrived @throws NonFiniteLoss
  void after_step(double lr, const Tensor& loss);
  bool at_end_of_epoch() const;
  /// After the last step: validates, ends the bar and saves. @throws FormatError where the last checkpoint cannot be
  /// written
  void finish();
  /// Gives the model, the checkpoints' item "model", the weights of the best one, if an earlier than the last is that.
  void take_best(nn::Module& model) const;

  /// Ctrl-C came before the end.
  bool interrupted() const;
  /// 130 after Ctrl-C.
  int exit_code() const;
  /// The lowest validation loss; infinite before the first.
  double valid_loss() const;
  /// What the loop knows of it; without memory, which RunSummary::measure_memory() adds.
  RunSummary summary() const;

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace etna::training
