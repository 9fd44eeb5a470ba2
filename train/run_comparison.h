#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
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

/// How the same steps went on several devices and in several precisions. The first pair is the yardstick of the others.
class RunComparison {
 public:
  /// @param pairs at least one; each run has read a loss
  explicit RunComparison(std::vector<RunPair> pairs) : pairs_(std::move(pairs)) {}

  /// Prints a table, amdahl_line() of each, losses side by side, and a conclusion in one line; writes picture() and
  /// json() to files that are named. @return true if no loss differs by more than 2 %; otherwise it is said
  bool report(const std::string& title, const FilePath& picture_file, const FilePath& json_file) const;
  /// The table as an SVG picture.
  std::string picture(const std::string& title) const;
  /// An array of all runs, as json_text() of a summary, with "loss_difference" and "amdahl".
  std::string json() const;
  /// Largest |a - b| / |a| over all runs and the steps whose losses both read, a being the yardstick's.
  double largest_difference() const;

 private:
  std::string str() const;
  std::string table() const;
  std::string losses() const;
  std::string conclusion() const;

  std::vector<RunPair> pairs_;
};

}  // namespace etna::training
