#include "wikitext_command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace wikitext_command {

namespace fs = std::filesystem;

std::string command_line(const std::string& arguments, const std::string& environment) {
  return "env -u ETNA_DATA -u ETNA_DEVICE -u ETNA_STRICT ETNA_RUNS=" + fs::temp_directory_path().string() +
         "/etna_runs " + environment + " " ETNA_BINARY_DIR "/bin/wikitext " + arguments;
}

Outcome outcome_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.text.append(buffer, n);
  int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

Outcome wikitext(const std::string& arguments, const std::string& environment) {
  return outcome_of(command_line(arguments, environment));
}

std::string error_line(const Outcome& outcome) {
  std::istringstream lines(outcome.text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("error: ", 0) == 0) found = line;
  }
  return found;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Wikitext::SetUp() {
  folder_ = fs::temp_directory_path() / ("etna_wikitext_" + std::to_string(getpid()) + "_" +
                                         testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::create_directories(folder_);
}

void Wikitext::TearDown() { fs::remove_all(folder_); }

void Wikitext::train_into(const std::string& run) {
  const Outcome trained = wikitext("train --device cpu --preset demo --steps 3 --no-eval --out " + at(run));
  ASSERT_EQ(trained.code, 0) << trained.text;
}

}  // namespace wikitext_command
