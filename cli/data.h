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

/// Both return the exit code: 2 for wrong usage, 4 for texts and files that cannot be used, 130 after Ctrl-C.
/// @param command the subcommand `prepare` @throws Error if standard output cannot be written
int prepare_data(const CLI::App& command, const DataOptions& options);
int inspect_data(const DataOptions& options);

}  // namespace etna::cli
