#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/device/error.h>

#include "generation.h"

/// Commands whose model is divided over several processes: --gpus, and those that a launcher starts.
namespace etna::cli {

void add_gpus_option(CLI::App& app, ModelOptions& options);

struct RanksOptions {
  std::function<void()> refuse = {};  ///< throws RankFailed for what cannot be done in several processes; may be empty
  bool reads_lines = false;           ///< rank 0 prints waits_for_line() before it reads one
};

/// Runs a command in as many processes as --gpus says, or a launcher started: this process starts them and waits, or is
/// one of them. Ranks other than 0 print nothing. @return the exit code @throws DeviceError where the computer has too
/// few devices, and what `run` throws where this process is alone
int run_on_ranks(ModelOptions& options, const std::function<int()>& run, const RanksOptions& ranks = {});
/// Whether this process will be rank 0, or alone; no process that starts the ranks.
bool is_first_rank(const ModelOptions& options);

/// A rank could not do its part. Rank 0 says which one and why, and all end.
struct RankFailed : Error {
  RankFailed(const std::string& what, int code) : Error(what), code(code) {}
  int code;  ///< exit code
};

/// Does a part of the work that may fail in one rank alone, and waits for the others. @throws RankFailed on all ranks
void do_on_all_ranks(const std::function<void()>& work);
template <typename F>
auto on_all_ranks(F work) {
  std::optional<std::invoke_result_t<F>> result;
  do_on_all_ranks([&] { result.emplace(work()); });
  return std::move(*result);
}

/// Lets rank 0 alone use a model. All ranks call it.
/// @return true on rank 0, whose generator the others follow as long as it lives; elsewhere false, once it has ended
bool leads(LoadedModel& model);

}  // namespace etna::cli
