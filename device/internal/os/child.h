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

/// Runs a program, found as a shell finds it, with this process's streams, and waits for it. SIGINT and SIGTERM go to
/// the child meanwhile.
/// @param command the program and its arguments @param environment variables to set for it
ChildEnd run_child(const std::vector<std::string>& command,
                   const std::vector<std::pair<std::string, std::string>>& environment = {});

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
