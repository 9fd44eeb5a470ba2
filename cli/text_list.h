#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "generation.h"

/// Texts that a command reads one by one: `etna embed` and `etna rerank`.
namespace etna::cli {

struct TextListOptions : ModelOptions {
  std::vector<std::string> texts;
  std::string file;  ///< "-": standard input
  bool refuses_long = false;
};

/// --text, --file, and what else both commands have.
void add_text_list_options(CLI::App& app, TextListOptions& options);

/// Whether no text is given, and says so. @param command "embed"
bool lacks_text(const TextListOptions& options, const char* command);

/// The texts of the options, or the lines of the file. @throws FormatError where there is none
std::vector<std::string> texts_of(const TextListOptions& options);

/// Says which texts are too long. @param cut their indices @throws FormatError where the options refuse them
void report_long(const TextListOptions& options, const std::vector<std::size_t>& cut, std::int64_t most);

}  // namespace etna::cli
