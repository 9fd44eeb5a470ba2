#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <etna/train/runs.h>

/// `etna runs`: the list of training runs, compared and plotted.
namespace etna::cli {

struct RunsOptions {
  std::size_t last = 0;  ///< 0: all
  std::string sort;
  bool reverse = false, json = false, log = false, force = false;
  std::vector<std::string> filters, names, metrics;
  std::string svg;
};

/// Both return the exit code, 4 for unknown runs. @throws Error if standard output cannot be written
int compare_runs(const training::RunList& list, const RunsOptions& options);
int plot_runs(const training::RunList& list, const RunsOptions& options);

/// What a run has under a name of `--sort` and `--filter`: a result or a value of its configuration. Null for nothing.
nlohmann::ordered_json value_of(const training::RunRecord& run, const std::string& name);

/// Names of the numbers that runs have: those of every summary, then what else some of these have.
std::vector<std::string> numbers_of(const std::vector<const training::RunRecord*>& runs);

/// The configuration without nesting: {"model.dim", 512}.
std::vector<std::pair<std::string, nlohmann::ordered_json>> flat_config(const training::RunRecord& run);

enum class Digits {
  needed,  ///< of a setting: "0.0003", "2"
  four,    ///< of a result, so that columns align: "2.000"
};

/// Text as it is, numbers in four digits and from 1,000 without fractions, other values as JSON; "-" for null.
std::string shown(const nlohmann::ordered_json& value, Digits digits = Digits::needed);

}  // namespace etna::cli
