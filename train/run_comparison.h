#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/train/run_summary.h>

namespace etna::profile {
struct Summary;
}

namespace etna::training {

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
