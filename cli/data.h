#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// `etna data`: texts as corpora of token files, for training.
namespace etna::cli {

struct DataOptions {
  // prepare
  std::vector<std::string> inputs, globs;
  std::string out, tokenizer = "bpe", json;
  std::int64_t vocab_size = 0, min_frequency = 0;
  double valid = 0.05, test = 0.05;
  bool force = false;
  // inspect
  std::string what;
  std::int64_t tokens = 40;
  bool verify = false;
};

/// Adds the subcommand `data` with its own: prepare, inspect.
CLI::App* add_data(CLI::App& app, DataOptions& options);

/// @param command what add_data() gave @returns the exit code: 2 for wrong usage, 4 for texts and files that cannot be
/// used, 130 after Ctrl-C @throws Error if standard output cannot be written
int data_command(const CLI::App& command, const DataOptions& options);

int prepare_data(const CLI::App& command, const DataOptions& options);
int inspect_data(const DataOptions& options);

}  // namespace etna::cli
