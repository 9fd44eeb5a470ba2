#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <etna/train/runs.h>

namespace etna::training {

/// What summary.json has in place of a number that is not known.
enum class Unknown { absent, null, zero };

/// A number of a run's summary: what it is, and how each place shows it.
struct SummaryNumber {
  std::string_view name;                                  ///< in files and for `etna runs --sort`; a dot nests it
  std::optional<double> (*value)(const RunSummary& run);  ///< nothing: not known
  std::string_view unit = {};                             ///< after the number
  bool integer = false;                                   ///< a count, or bytes
  std::string_view printed = {};                ///< its format after the training, "{:.0f}"; empty: not printed
  std::string_view label = {};                  ///< in report.html; empty: not there
  std::string (*text)(double value) = nullptr;  ///< what the report shows; left out, as printed
  std::string_view column = {};                 ///< its title in `etna runs`; empty: not in the list of runs
  int rank = 9;         ///< of the column: where the terminal is narrow, the highest goes first, 0 never
  bool in_file = true;  ///< summary.json has it
  Unknown unknown = Unknown::zero;
};

/// All of them, in the order in which every place shows them.
std::span<const SummaryNumber> summary_numbers();

/// "valid" for "valid_perplexity": the list of runs keeps perplexities by their set. Empty for other numbers.
std::string_view perplexity_set(std::string_view name);

}  // namespace etna::training
