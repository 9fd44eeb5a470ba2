#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/device/transfers.h>

namespace etna::training {

/// A loss that has arrived on the host.
struct LossReading {
  std::int64_t step = 0;  ///< starts at 1
  double loss = 0, lr = 0;
  double seconds = 0;            ///< of training since its beginning
  double tokens_per_second = 0;  ///< since the reading before; 0: not known yet
};

/// The figures of a training run. TrainingLoop::summary() fills in what the loop knows. Each number that is made of
/// them is a row of one table (docs/adding-a-summary-number.md).
struct RunSummary {
  std::string command;                         ///< "wikitext train"
  std::string preset, precision;               ///< "tiny", "f32"
  std::string mode = "captured";               ///< or "eager"
  Device device = {};                          ///< that trained
  std::int64_t parameters = 0;                 ///< of the model
  std::vector<LossReading> losses;             ///< in the order of steps
  std::vector<double> epoch_loss;              ///< means over epochs
  std::vector<double> epoch_seconds;           ///< of epochs that were timed whole
  double seconds = 0, ms_per_step_median = 0;  ///< of training
  std::int64_t first_step = 0, steps = 0;      ///< made before this process began, and in all
  std::int64_t tokens_per_step = 0;            ///< 0: the model reads no tokens
  std::int64_t steps_per_epoch = 0;
  std::string program;          ///< the report of the captured step
  Transfers transfers;          ///< during the training
  MemoryStats memory;           ///< of the device, after the training
  std::uint64_t host_peak = 0;  ///< bytes
  std::optional<double> valid_perplexity, test_perplexity;
  std::optional<double> valid_word_perplexity, test_word_perplexity;  ///< where tokens are no words

  /// 0 where it is not known.
  double tokens_per_second() const;
  /// The median of the measured epochs, else steps per epoch × the median step.
  double seconds_per_epoch() const;
  /// Takes the memory in use and the transfers so far.
  void measure_memory();

  /// The lines that a program prints after its training.
  std::string str() const;
  /// "validation 20.12, test 19.00", and where tokens are no words " a token; validation 80.12, test 75.00 a word".
  std::string perplexities() const;
};

/// A JSON object, with indentation: summary.json.
std::string json_text(const RunSummary& summary);

}  // namespace etna::training
