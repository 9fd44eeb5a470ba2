#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/train/receipt.h>

#include "generation.h"

/// --receipt of commands that compute (docs/receipts.md).
namespace etna::cli {

/// argv, which main() fills in.
std::vector<std::string>& command_line();

/// Adds --receipt FILE, and --force where the command has none yet.
void add_receipt_option(CLI::App& app, std::string& file, bool& force);

/// Begins to count; null for an empty `file`. @param read files that the command reads, which it must not replace
/// @throws OutputExists, FormatError where the file cannot be written
std::unique_ptr<training::Receipt> begin_receipt(const std::string& file, bool force,
                                                 const std::vector<FilePath>& read = {});
/// The same for a command that runs a model: with the files that the options name. @param always also without a file
std::unique_ptr<training::Receipt> begin_receipt(const ModelOptions& options, bool always = false);

/// The files of --image and --mmproj.
void add_image_files(training::Receipt& receipt, const TextOptions& options);
/// How many tokens were read and written, and how fast.
void add_generation(training::Receipt& receipt, const LoadedModel& model);

}  // namespace etna::cli
