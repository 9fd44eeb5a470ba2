#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <etna/train/settings.h>

/// What CLI11 lacks for the command line.
namespace etna::cli {

/// Refuses other numbers before the work begins, in words.
CLI::Validator number_in(const training::NumberRange& range);

/// A sentence about the first argument that no command takes, with the name that was meant: an option or a command.
/// Empty where every argument has its place.
std::string unknown_argument(const CLI::App& app);

/// The options of a command but for hidden ones, in the order of --help.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
/// Its commands, in the order of --help.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
/// "--temperature", "-m", and "--no-tensors" for a flag that clears.
std::vector<std::string> names_of(const CLI::Option& option);

}  // namespace etna::cli
