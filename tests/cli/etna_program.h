#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace etna {

struct Result {
  std::string output;  ///< standard output and error together
  int code;
};

/// @param environment arguments of `env`
inline Result run_program(const std::string& program, const std::string& arguments, const std::string& environment = "",
                          const std::string& errors = "2>&1") {
  std::string command = "env " + environment + " '" + program + "' " + arguments + " " + errors;
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  int status = pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

#ifdef ETNA_PROGRAM
/// Runs etna.
inline Result etna(const std::string& arguments, const std::string& environment = "") {
  return run_program(ETNA_PROGRAM, arguments, environment);
}
#endif

}  // namespace etna
