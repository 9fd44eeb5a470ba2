#include <runner/run_program.h>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

namespace etna {

Result run_program(const std::string& program, const std::string& arguments, const std::string& environment,
                   const std::string& errors) {
  const std::string command = "env " + environment + " '" + program + "' </dev/null " + arguments + " " + errors;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  const int status = pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace etna
