#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/device/transfers.h>

#include "loss_meter.h"
#include "training_run.h"

namespace wikitext {

/// Figures of a training run.
struct Summary {
  std::string preset, precision, mode = "captured";
  std::vector<Look> looks;
  std::vector<double> epoch_loss, epoch_seconds;
  double seconds = 0, ms_per_step_median = 0;
  std::int64_t first_step = 0, steps = 0, tokens_per_step = 0, steps_per_epoch = 0;
  std::optional<etna::ProgramReport> program;  ///< of the captured step
  etna::Transfers transfers;                   ///< during the training
  etna::MemoryStats memory;                    ///< of the device, after it
  std::string profile_svg;                     ///< where the time of two steps went; may be empty
  std::optional<double> valid_perplexity, test_perplexity;
  std::optional<double> valid_word_perplexity, test_word_perplexity;  ///< where tokens are no words

  double tokens_per_second() const;
  /// Seconds per epoch: the median of the measured epochs, or else steps per epoch × the median step.
  double seconds_an_epoch() const;
};

/// The figures that the run and its meter have.
Summary summary_of(const TrainingRun& run, const LossMeter& meter, std::int64_t first_step);

void print_summary(const Summary& summary);

/// Where a JSON file names the command that wrote it, which another output may then replace.
inline constexpr const char* kCommandKey = "command";
/// @param command "wikitext eval"
inline std::vector<std::string> json_marks(const std::string& command) {
  return {"\"" + std::string(kCommandKey) + "\": \"" + command + "\""};
}

/// One run as JSON: model, device, speed, quality, memory and transfers.
/// @param command "wikitext train"
nlohmann::json to_json(const Summary& summary, const TextModel& model, etna::Device device, const char* command);

}  // namespace wikitext
