#include "ranks.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/os/process.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/dist/dist.h>
#include <etna/dist/internal/group.h>
#include <etna/dist/internal/local_device.h>
#include <etna/dist/internal/place.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "launch.h"
#include "output.h"
#include "receipt_option.h"

namespace etna::cli {
namespace {

/// Ranks may read their weights from disks of different speed.
constexpr double kWorkSeconds = 3600;

const char* ranks_variable(const char* name) { return std::getenv(name); }

/// Exit code and sentence of the exception that is handled now.
std::pair<int, std::string> current_failure() {
  try {
    throw;
  } catch (const RankFailed& error) {
    return {error.code, error.what()};
  } catch (const io::OutputExists& error) {
    return {2, error.what()};
  } catch (const DeviceError& error) {
    return {3, error.what()};
  } catch (const FormatError& error) {
    return {4, error.what()};
  } catch (const OutOfMemory& error) {
    return {5, error.what()};
  } catch (const std::bad_alloc&) {
    return {5, "the host has no memory left"};
  } catch (const models::SuspiciousWeights& error) {
    return {kSuspicious, error.what()};
  } catch (const std::exception& error) {
    return {1, error.what()};
  }
}

bool names_cpu(const std::string& device) {
  const char* variable = std::getenv("ETNA_DEVICE");
  return device == "cpu" || (device.empty() && variable != nullptr && std::string_view(variable) == "cpu");
}

/// Whether an argument asks for standard input, which else is not read where it is a terminal.
bool reads_input(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& one) { return one == "-" || one.ends_with("=-"); });
}

/// What several processes cannot do. @throws RankFailed
void refuse_in_ranks(const ModelOptions& options, const RanksOptions& ranks) {
  if (options.gpu_layers != "auto" && names_cpu(options.device)) {
    throw RankFailed(
        fmt::format("--gpu-layers {}: on the CPU no layer is on a GPU; leave this option or the device out",
                    options.gpu_layers),
        2);
  }
  if (options.experts == "cpu")
    throw RankFailed("--experts cpu is for one GPU; with --gpus each has a part of the model", 2);
  if (ranks.refuse) ranks.refuse();
}

/// Starts this command once more, in several processes. @throws DeviceError before any of them begins
int start_ranks(const ModelOptions& options, const RanksOptions& ranks) {
  if (options.strict) select_device_strictly(options.device);
  const Device device = distributed::local_device(options.device, 0, options.gpus);
  if (device.is_cpu() && !names_cpu(options.device))
    throw DeviceError(
        fmt::format("--gpus {}: this computer has no GPU that can be used; see etna devices. With "
                    "--device cpu, {} processes share its cores",
                    options.gpus, options.gpus));
  const bool terminal = os::is_terminal(stdin), talks = terminal && ranks.reads_lines,
             reads_terminal = terminal && !talks && reads_input(command_line());
  // In the background, where Ctrl-C does not reach it, mpirun cannot read the terminal.
  Processes processes{.count = options.gpus,
                      .command = command_line(),
                      .forwards_input = !terminal || talks || reads_terminal,
                      .on_terminal = talks,
                      .asks_to_end = !reads_terminal,
                      .explains_exit_codes = false};
  processes.command.at(0) = own_file();
  return run_processes(processes);
}

int run_rank_of_group(const ModelOptions& options, const std::function<int()>& run) {
  const int rank = distributed::rank(), ranks = distributed::size();
  try {
    if (options.gpus > 0 && options.gpus != ranks)
      throw RankFailed(fmt::format("--gpus {} in a group of {} processes; leave it out", options.gpus, ranks), 2);
    const int code = run();
    distributed::finish();
    return code;
  } catch (const distributed::RankLost& error) {
    if (distributed::reports_failure()) print_error(training::printable(error.what()));
    return distributed::kRankLostExit;
  } catch (const std::exception& error) {
    const auto [code, text] = current_failure();
    // All ranks know these; of others, each speaks for itself.
    const bool known = dynamic_cast<const RankFailed*>(&error) != nullptr || code == kSuspicious || code == 2;
    if (rank == 0 || !known)
      print_error(training::printable(rank == 0 ? text : fmt::format("rank {}: {}", rank, text)));
    if (known) distributed::finish();
    return code;
  }
}

}  // namespace

void add_gpus_option(CLI::App& app, ModelOptions& options) {
  app.add_option("--gpus", options.gpus,
                 "divide the model over so many GPUs of this computer, a process for each; with --device cpu, over "
                 "processes on the CPU")
      ->check(number_in(training::integers(1, 1024)));
}

bool is_first_rank(const ModelOptions& options) {
  const distributed::Place place = distributed::find_place({}, ranks_variable);
  return place.size == 1 ? options.gpus <= 1 : place.rank == 0;
}

int run_on_ranks(ModelOptions& options, const std::function<int()>& run, const RanksOptions& ranks) {
  if (distributed::find_place({}, ranks_variable).size == 1) {
    if (options.gpus <= 1) return run();
    try {
      refuse_in_ranks(options, ranks);
    } catch (const RankFailed& error) {
      print_error(training::printable(error.what()));
      return error.code;
    }
    return start_ranks(options, ranks);
  }
  distributed::init();
  if (distributed::rank() != 0) options.quiet = true;
  return run_rank_of_group(options, [&] {
    refuse_in_ranks(options, ranks);
    return run();
  });
}

void do_on_all_ranks(const std::function<void()>& work) {
  distributed::Group* group = distributed::group();
  if (group == nullptr) return work();
  std::pair<int, std::string> failure{0, ""};
  try {
    work();
  } catch (const distributed::RankLost&) {
    throw;
  } catch (const std::exception&) {
    failure = current_failure();
  }
  static int calls = 0;
  const std::vector<std::string> all = group->meeting().gather(
      fmt::format("work/{}", ++calls), fmt::format("{} {}", failure.first, failure.second), kWorkSeconds);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t space = all[i].find(' ');
    const int code = std::atoi(all[i].substr(0, space).c_str());
    const std::string text = all[i].substr(space + 1);
    if (code != 0) throw RankFailed(i == 0 ? text : fmt::format("rank {}: {}", i, text), code);
  }
}

bool leads(LoadedModel& model) {
  if (!distributed::is_distributed()) return true;
  if (distributed::rank() == 0) {
    model.generator->lead();
    return true;
  }
  const os::EndSignals ignored([](int) {});  // rank 0 gets them, too, and decides
  model.generator->follow();
  return false;
}

}  // namespace etna::cli
