#pragma once

#include <string>

#include <CLI/CLI.hpp>

/// `etna inspect` and `etna quantize`: files of models.
namespace etna::cli {

struct InspectOptions {
  std::string file, json;
  bool check = false, names = true, force = false;
};
struct QuantizeOptions {
  std::string file, to, out;
  bool pure = false, force = false;
};

CLI::App* add_inspect(CLI::App& app, InspectOptions& options);
CLI::App* add_quantize(CLI::App& app, QuantizeOptions& options);

/// Both return the exit code: 2 for wrong usage, 4 for files that cannot be read or are damaged, 8 for suspicious
/// weights, 130 after Ctrl-C. @throws Error if standard output cannot be written; models::SuspiciousWeights
int inspect(const InspectOptions& options);
int quantize(const QuantizeOptions& options);

inline constexpr int kSuspicious = 8;

}  // namespace etna::cli
