#pragma once

#include <string>

#include <CLI/CLI.hpp>

/// The command line as other programs read it, from the same table as --help.
namespace etna::cli {

/// @param shell "bash", "zsh" or "fish"
std::string completion(const CLI::App& app, const std::string& shell);

/// A page for man, with all commands.
std::string man_page(const CLI::App& app);

}  // namespace etna::cli
