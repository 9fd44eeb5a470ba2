#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/os/child.h>
#include <etna/device/internal/os/process.h>
#include <etna/dist/dist.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "chat_terminal.h"
#include "commands.h"
#include "launch.h"
#include "output.h"
#include "receipt_option.h"

namespace etna::cli {
namespace {

/// Names and values of environment variables.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// As a shell reports Ctrl-C.
constexpr int kInterruptedExit = 130;

struct LaunchOptions {
  int ranks = 2;
  std::string hosts, meet;
  double late_seconds = 0;
  bool as_rank = false, silent = false;
  std::vector<std::string> command;
};

int number_in_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// What mpirun runs for each rank: the program, and a sentence about how it ended.
int run_rank(const LaunchOptions& options) {
  const int rank = number_in_environment("OMPI_COMM_WORLD_RANK", 0);
  os::use_share_of_cores(number_in_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0),
                         number_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE", 1));
  const os::ChildEnd end =
      os::run_child(options.command, {.environment = {{"ETNA_LAUNCHED", "1"}}, .enters = options.silent});
  const std::string program = training::printable(options.command[0]);
  if (!end.error.empty()) {
    // Once, though it is so for all of a host.
    if (number_in_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0) == 0)
      print_error(fmt::format("launch: {} cannot be started on {}: {}", program, os::host_name(), end.error));
    return 127;
  }
  const int code = end.signal != 0 ? 128 + end.signal : end.exit_code;
  if (end.asked || code == 0 || code == distributed::kRankLostExit) return code;
  if (options.silent && end.signal == 0) return code;
  const std::string how = end.signal != 0
                              ? fmt::format("was killed by signal {} ({})", end.signal, os::signal_words(end.signal))
                              : fmt::format("ended with exit code {}", code);
  print_error(fmt::format("launch: rank {} ({}, process {}) {}; the other ranks end, too", rank, os::host_name(),
                          end.process, how));
  return code;
}

/// Variables that processes on other hosts would not get.
void export_variables(std::vector<std::string>& command, const Variables& more) {
  std::set<std::string> names;
  for (const std::string& name : os::variable_names())
    if (name.starts_with("ETNA_") || name == "PATH" || name == "LD_LIBRARY_PATH") names.insert(name);
  for (const auto& [name, value] : more) names.insert(name);
  for (const std::string& name : names) command.insert(command.end(), {"-x", name});
}

}  // namespace

std::string own_file() {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical("/proc/self/exe", error);  // Linux
  return error ? std::filesystem::absolute(command_line().at(0)).string() : file.string();
}

int run_processes(const Processes& options) {
  if (!options.hosts.empty() && !std::filesystem::exists(options.hosts)) {
    print_error(fmt::format("launch: '{}', the list of hosts, is not there", training::printable(options.hosts)));
    return 4;
  }
  Variables environment;
  if (!options.meet.empty()) environment.emplace_back("ETNA_MEET", options.meet);
  if (options.late_seconds > 0)
    environment.emplace_back("ETNA_LATE_SECONDS", fmt::format("{:g}", options.late_seconds));
  std::vector<std::string> command = {"mpirun", "--quiet", "--bind-to", "none"};
  if (options.hosts.empty()) {
    command.emplace_back("--oversubscribe");
  } else {
    command.insert(command.end(), {"--hostfile", options.hosts});
    export_variables(command, environment);
  }
  if (!options.forwards_input) command.insert(command.end(), {"--stdin", "none"});
  command.insert(command.end(), {"-n", std::to_string(options.count), own_file(), "launch", "--as-rank"});
  if (!options.explains_exit_codes) command.emplace_back("--silent");
  command.emplace_back("--");
  command.insert(command.end(), options.command.begin(), options.command.end());
  // mpirun asks whether root means it; whoever starts a program as root does.
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    if (os::is_root()) environment.emplace_back(name, "1");
  const os::ChildOptions child{.environment = environment, .asks_entered = options.asks_to_end};
  const os::ChildEnd end = options.on_terminal ? talk_to_ranks(command, child) : os::run_child(command, child);
  if (!end.error.empty()) {
    print_error(fmt::format("launch: mpirun cannot be started: {}; install Open MPI (Debian: openmpi-bin)", end.error));
    return 1;
  }
  // mpirun does not hand on that its processes were interrupted.
  if (end.asked && end.signal == 0 && !options.asks_to_end && !options.explains_exit_codes) return kInterruptedExit;
  return end.signal != 0 ? 128 + end.signal : end.exit_code;
}

Command add_launch(CLI::App& app) {
  const auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand("launch", "Start a program in several processes, which train together");
  command->footer("etna launch -n 2 -- wikitext train --distributed --preset tiny");
  command->add_option("-n,--processes", options->ranks, "how many")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--hosts", options->hosts,
                      "a file with a host in each line, `node1 slots=8`: Open MPI's hostfile (default: this computer)");
  command->add_option("--meet", options->meet,
                      "where the processes meet, as ETNA_MEET: HOST:PORT of the first one, or a file that all see "
                      "(default: a free port)");
  command
      ->add_option("--late-seconds", options->late_seconds,
                   "after how long a process that does not come to a collective counts as lost, as "
                   "ETNA_LATE_SECONDS (default: 600)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--as-rank", options->as_rank)->group("");
  command->add_flag("--silent", options->silent)->group("");
  command->add_option("command", options->command, "the program and its arguments, after --")->required();
  return {command, [options] {
            if (options->as_rank) return run_rank(*options);
            return run_processes({.count = options->ranks,
                                  .hosts = options->hosts,
                                  .meet = options->meet,
                                  .late_seconds = options->late_seconds,
                                  .command = options->command});
          }};
}

}  // namespace etna::cli
