#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/train/train.h>

#include "evaluate.h"
#include "loss_meter.h"
#include "report.h"
#include "saved_model.h"
#include "training_run.h"

namespace wikitext {

/// What a person sees of a training run, and what stays of it: progress, metrics, validation, checkpoints.
class Watch {
 public:
  struct Options {
    std::filesystem::path folder;  ///< of the run, locked by the caller; empty: nothing is written
    etna::Metadata metadata;       ///< of checkpoints
    bool resume = false;           ///< go on from the newest checkpoint
    bool evaluate = true;          ///< validate now and then
    std::int64_t reported = -1;    ///< the step that the folder's summary is of; negative: none
  };
  /// The references outlive the object. @throws FormatError for a checkpoint that does not fit, or a full disk
  Watch(TrainingRun& run, TextModel& model, Corpus& corpus, const Settings& settings, etna::Device device,
        Options options);

  /// True for a resumed run with no step to go whose summary is there: nothing was written, and nothing else may be
  /// called.
  bool nothing_left() const { return !meter_; }
  /// False at the end, after Ctrl-C, and where validation stops improving.
  bool go_on() const;
  /// After each step. @param lr the step's learning rate @throws NonFiniteLoss
  void after_step(double lr, const etna::Tensor& loss);
  /// After the last step: validates, ends the bar and saves. @throws FormatError where the last checkpoint cannot be
  /// written
  void finish();
  /// Gives the model the weights of the best checkpoint, if an earlier one than the last is the best.
  void take_best();
  /// The lowest validation loss.
  double valid_loss() const { return stopping_.best(); }

  bool interrupted() const { return interrupt_.requested() && run_.step() < run_.total(); }
  int exit_code() const { return interrupt_.exit_code(); }
  /// @param first_step the step at which this process began
  Summary summary(const std::string& preset, std::int64_t first_step) const;

 private:
  void tell(const std::optional<Look>& look);
  void log(std::int64_t step, const etna::training::MetricLog::Values& values);
  /// @return true if the present weights are the best so far
  bool validate();
  void save(const etna::Tensor& loss, bool best);

  TrainingRun& run_;
  TextModel& model_;
  etna::data::TokenizerState tokenizer_;
  const Settings& settings_;
  Options options_;
  etna::training::Interrupt interrupt_;
  etna::training::EarlyStopping stopping_;
  double seconds_ = 0;  ///< of training up to the last checkpoint
  std::optional<etna::training::Checkpointer> checkpoints_;
  std::optional<LossMeter> meter_;
  std::optional<etna::training::Progress> progress_;
  std::optional<etna::training::MetricLog> metrics_;
  std::optional<Split> valid_;
  std::vector<double> epoch_loss_, epoch_seconds_;
  double epoch_begin_ = 0;
  std::int64_t epoch_first_ = 0;    ///< the step at which epoch_begin_ was
  std::int64_t validated_at_ = -1;  ///< the step of the last validation
};

}  // namespace wikitext
