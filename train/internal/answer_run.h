#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/models/model_file.h>
#include <etna/optim/adam.h>
#include <etna/optim/schedule.h>
#include <etna/train/evaluator.h>
#include <etna/train/internal/answer_batches.h>
#include <etna/train/internal/answer_loss.h>
#include <etna/train/text_training.h>
#include <etna/train/training_step.h>

/// A decoder on its way through a file of rows. Internal.
namespace etna::training {

/// The weights of a decoder that are trained, as an object of a checkpoint.
struct TrainedWeights {
  models::Decoder& decoder;

  std::vector<Tensor> parameters() const;
  std::int64_t count() const;
  std::map<std::string, Tensor> state_dict() const;
  /// @throws FormatError for other names or shapes
  void load_state_dict(const std::map<std::string, Tensor>& state);
};

/// The model of the options on their device, with fresh or given adapters, in training mode.
/// @throws FormatError, SettingError for unknown targets
models::Model open_tuned_model(const FineTuneOptions& options);
/// As load_model(). @throws FormatError for a model that reads in both directions, too
models::Model open_causal_model(const std::string& file, const models::LoadOptions& options);

/// Batches, loss, optimizer and schedule of a run.
class AnswerRun {
 public:
  /// @param decoder, rows, teacher outlive this @param teacher null: there is none
  AnswerRun(models::Decoder& decoder, const AnswerRows& rows, const FineTuneOptions& options, AnswerObjective objective,
            const models::Decoder* teacher);
  AnswerRun(const AnswerRun&) = delete;
  AnswerRun& operator=(const AnswerRun&) = delete;

  /// Makes a step. @return its loss, 0-d on the device; the next step may overwrite it
  Tensor advance();
  const std::int64_t& step() const { return step_; }
  double lr() const { return optimizer_.lr(); }
  const AnswerBatches& batches() const { return batches_; }
  const TrainedWeights& weights() const { return weights_; }
  std::optional<CaptureReport> report() const { return train_.report(); }

  /// Length, checkpoints and their items, by the options.
  TrainingLoopOptions loop_options();

 private:
  const FineTuneOptions options_;
  models::Decoder& decoder_;
  TrainedWeights weights_;
  AnswerBatches batches_;
  AnswerLoss loss_;
  const std::int64_t planned_, total_;
  std::int64_t step_ = 0;
  optim::AdamW optimizer_;
  optim::Scheduler schedule_;
  Tensor epoch_loss_;  ///< sum over the epoch's steps
  TrainingStep train_;
};

/// The mean loss of rows that are not trained on.
class AnswerValidation {
 public:
  /// @param decoder, rows outlive this
  AnswerValidation(models::Decoder& decoder, const AnswerRows& rows, const FineTuneOptions& options,
                   AnswerObjective objective);
  double loss();

 private:
  AnswerBatches batches_;
  AnswerLoss loss_;
  Evaluator evaluator_;
};

/// What the training will need, measured by steps of a model of its own. @param batches of the run
MemoryForecast forecast_tuning(const FineTuneOptions& options, AnswerObjective objective, const AnswerBatches& batches);

}  // namespace etna::training
