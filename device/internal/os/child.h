#pragma once

#include <string>
#include <utility>
#include <vector>

namespace etna::os {

/// How a child process ended.
struct ChildEnd {
  int process = 0;
  int exit_code = 0;
  int signal = 0;          ///< that killed it; 0: none
  bool asked = false;      ///< this process was told to end (SIGINT, SIGTERM) and handed it on
  std::string error = {};  ///< why it did not begin; empty: it did
};

struct ChildOptions {
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< variables to set for it
  int input = -1, output = -1;  ///< files that become its standard streams, and are closed here; -1: this process's
  /// The child is mpirun, which kills its processes at SIGINT and SIGTERM, and of which some versions hand no other
  /// signal on. Those of its processes that enter themselves (below) get SIGUSR1 instead, straight from this one. The
  /// child is in a process group of its own, where Ctrl-C does not reach it, and ends with this process (Linux).
  bool asks_entered = false;
  /// The other end, which mpirun starts: it enters itself, and at SIGUSR1 its child gets SIGINT.
  bool enters = false;
};

/// Runs a program, found as a shell finds it, with this process's streams, and waits for it. SIGINT and SIGTERM go to
/// the child meanwhile. @param command the program and its arguments
ChildEnd run_child(const std::vector<std::string>& command, const ChildOptions& options = {});

/// The names of all variables of the environment.
std::vector<std::string> variable_names();

/// "Killed"
std::string signal_words(int signal);

/// Leaves this process, and what it starts, one of `shares` equal parts of the cores that it may use; one core where
/// there are fewer. Does nothing where the system cannot (macOS, Windows).
void use_share_of_cores(int share, int shares);

/// Whether this is the administrator, root.
bool is_root();

}  // namespace etna::os
