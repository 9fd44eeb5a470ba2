#pragma once

#include <string>
#include <vector>

namespace etna::cli {

/// Processes that `etna launch` and `--gpus` start.
struct Processes {
  int count = 2;
  std::string hosts = {};            ///< Open MPI's hostfile; empty: this computer
  std::string meet = {};             ///< as ETNA_MEET; empty: a free port
  double late_seconds = 0;           ///< as ETNA_LATE_SECONDS; 0: 600
  std::vector<std::string> command;  ///< the program and its arguments
  bool forwards_input = true;        ///< rank 0 reads standard input; else nobody does
  bool on_terminal = false;          ///< rank 0 reads lines that this process reads on a terminal (chat_terminal.h)
  bool asks_to_end = false;  ///< SIGINT and SIGTERM reach the program, which ends by itself; else mpirun kills it
  bool explains_exit_codes = true;  ///< a sentence names a rank that failed; else the program does
};

/// Starts them by mpirun and waits. @return the exit code
int run_processes(const Processes& processes);

/// This program's file, for processes that do not begin where this one did.
std::string own_file();

}  // namespace etna::cli
