#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/device/output_file.h>

namespace etna::cli {

/// Writes to standard output. @throws Error for a failed write, a full disk for example
void print_all(const std::string& text);

/// Writes "etna: ..." to standard error. That it cannot be written is no error: nobody could be told.
void print_error(const std::string& sentence);

/// Adds an option that names an output file, and --force where the command has none yet.
CLI::Option* add_output(CLI::App& app, const std::string& name, std::string& file, const std::string& help,
                        bool& force);

/// Where a JSON file names the command that wrote it, which another output may then replace.
inline constexpr const char* kCommandKey = "command";
/// @param command "etna inspect"
std::vector<std::string> json_marks(const std::string& command);

struct Terminal {
  bool is_terminal = false;  ///< standard output is one
  std::size_t width = 80, height = 24;
  bool colour = false;  ///< a terminal, and neither NO_COLOR nor TERM=dumb says otherwise
};

/// What standard output goes to. $COLUMNS and $LINES beat what the terminal says; without either, `width` is 80.
Terminal terminal();

}  // namespace etna::cli
