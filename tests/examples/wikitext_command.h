#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

/// Runs the example as a person does: its output, its files, and how it ends on errors.
namespace wikitext_command {

struct Outcome {
  int code = -1;
  std::string text;  ///< standard output and error
};

/// The example's command line in an environment without settings. @param environment e.g. "ETNA_DATA=/x"
std::string command_line(const std::string& arguments, const std::string& environment = "");
/// Runs a command of a shell to its end.
Outcome outcome_of(const std::string& command);
/// Runs the example; no GPU is expected unless a test names one.
Outcome wikitext(const std::string& arguments, const std::string& environment = "");
/// The line with the error message.
std::string error_line(const Outcome& outcome);
std::string read(const std::filesystem::path& file);

/// A test with a folder of its own.
class Wikitext : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// A short run that other commands can use.
  void train_into(const std::string& run);

  std::filesystem::path folder_;
};

}  // namespace wikitext_command
