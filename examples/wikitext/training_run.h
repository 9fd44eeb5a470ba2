#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <etna/data/batches.h>
#include <etna/data/resident_batches.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/io/checkpoint.h>

#include "corpus.h"
#include "settings.h"
#include "text_model.h"

namespace wikitext {

struct RunOptions {
  bool captured = true;   ///< record a step once and replay it; otherwise run op by op
  bool resident = false;  ///< upload the text once and slice batches on the device; otherwise upload each batch
};

/// A model on its way through a text: contiguous streams of its tokens, epoch after epoch. All of its state is in
/// items(), so that a run that goes on from a checkpoint ends with the bits of one that was not stopped.
class TrainingRun {
 public:
  /// @param model on `device` already @param ids outlive the run @throws FormatError for a text too short for one step,
  /// SettingError for options that do not go with the settings
  TrainingRun(TextModel& model, const TokenIds& ids, const Settings& settings, etna::Device device,
              RunOptions options = {});

  /// Makes a step. @return its loss, 0-d on the device; the next step may overwrite it
  etna::Tensor advance();

  std::int64_t step() const { return step_; }
  std::int64_t total() const { return total_; }
  std::int64_t steps_per_epoch() const { return streams_.steps() / accumulation_; }
  std::int64_t tokens_per_step() const { return accumulation_ * streams_.tokens_per_step(); }
  /// How many steps from the first have met sequences of each length twice, so that each is captured.
  std::int64_t steps_of_all_kinds() const;
  bool at_end_of_epoch() const { return step_ > 0 && step_ % steps_per_epoch() == 0; }
  /// Mean training loss of the present epoch's steps; waits for the device.
  double epoch_loss() const;
  double lr() const { return optimizer_.lr(); }
  std::optional<etna::ProgramReport> program() const;

  /// Everything that changes, by name.
  std::vector<etna::CheckpointItem> items();
  /// Goes on at the batch that follows step(), after items() were loaded.
  void resume();

 private:
  etna::Tensor train(const etna::Tensor& x, const etna::Tensor& y);
  etna::data::Batch next_batch();

  /// Begins at the batch that follows step().
  void load_batches();

  TextModel& model_;
  std::unique_ptr<TextModel::Memory> memory_;
  etna::data::StreamBatches streams_;
  etna::Device device_;
  RunOptions options_;
  etna::DType precision_;
  std::int64_t accumulation_, seq_, spread_, step_ = 0, total_;
  std::uint64_t seed_;
  etna::optim::AdamW optimizer_;
  etna::optim::GradScaler scaler_;
  etna::optim::Scheduler schedule_;
  etna::Tensor epoch_loss_;  ///< sum over the epoch's steps
  std::optional<etna::data::ResidentBatches> resident_;
  std::optional<etna::data::BatchLoader> loader_;
  etna::CapturedFunction<std::function<etna::Tensor(const etna::Tensor&, const etna::Tensor&)>> replayed_;
  etna::CapturedFunction<std::function<etna::Tensor()>> replayed_resident_;
};

}  // namespace wikitext
