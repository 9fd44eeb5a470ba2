#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/file_path.h>
#include <etna/device/memory.h>

namespace etna::profile {
struct Summary;
}

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

/// Where a step's time goes, and the speedup from a device that did only the matrix products, and those in no time
/// (Amdahl 1967). Empty if the profile has no steps.
///     matrix products 65.5 %, cross_entropy 10.7 %, layer_norm 4.9 %, other ops 15.4 %, idle 3.5 %; without the
///     products a step would still take 0.54 ms: no more than 2.9 x is to be had there
std::string amdahl_line(const profile::Summary& summary);

/// Which losses are read, so that runs of `total` steps can be compared with those of fewer: about twenty of the first
/// `steps`, then of all.
std::function<bool(std::int64_t step)> comparable_reads(std::int64_t steps, std::int64_t total);
/// Forgets the peaks of memory and the transfers of the run before.
void begin_comparable_run(Device device);

/// The same steps on one device in one precision, op by op and captured.
struct RunPair {
  RunSummary eager, captured;
  std::string amdahl = {};  ///< amdahl_line() of the captured run

  std::string name() const;  ///< "vulkan:0 bf16"
};

/// Prints how the same steps went on several devices and in several precisions, the first pair being the yardstick: a
/// table, amdahl_line() of each, losses side by side, and a conclusion in one line.
/// @param pairs at least one; each run has read a loss
/// @param picture the table as an SVG file; empty: none
/// @param json a file with an array of all runs, as json_text() of a summary, with "loss_difference" and "amdahl"
/// @return true if no loss differs from the yardstick's by more than 2 %; otherwise it is said
/// @throws FormatError for a file that cannot be written
bool report_comparison(const std::vector<RunPair>& pairs, const std::string& title, const FilePath& picture,
                       const FilePath& json);

}  // namespace etna::training
