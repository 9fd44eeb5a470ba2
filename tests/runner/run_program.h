#pragma once

#include <string>

namespace etna {

struct Result {
  std::string output;  ///< standard output and error together
  int code;            ///< -1 where a signal ended the program
};

/// Runs a program by the system's shell, and waits for it.
/// @param arguments as a POSIX shell reads them: 'quoted with one kind of quote', `< file`, `> file`
/// @param environment arguments of `env`: `-u NAME`, `NAME=value`
Result run_program(const std::string& program, const std::string& arguments, const std::string& environment = "",
                   const std::string& errors = "2>&1");

/// The file of the program that asks.
std::string this_program();

}  // namespace etna
