#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate.h"

/// The subcommands. Each returns the process's exit code and throws Etna's errors.
namespace wikitext {

/// The source of the text: a WikiText folder, any text file, or the embedded corpus.
struct DataOptions {
  std::string data;  ///< --data, else $ETNA_DATA
  std::string text;  ///< --text
};

struct TrainOptions {
  DataOptions data;
  std::string device, preset = "tiny", out, json;
  std::int64_t epochs = 0, steps = 0, batch = 0;
  double lr = 0;
  std::uint64_t seed = 1;
  bool evaluate = true;
  std::string precision = "f32";
  bool eager = false;
  bool resident = false;
  bool profile = false, profile_exact = false;
  std::string trace;  ///< --trace
  std::int64_t profile_steps = 20;
};

struct EvaluateOptions {
  DataOptions data;
  std::string device, run, json, precision = "f32";
};

struct GenerateOptions {
  std::string device, run, prompt;
  Sampling sampling;
};

struct CompareOptions {
  DataOptions data;
  std::vector<std::string> devices = {"cpu", "vulkan:0"};
  std::string preset = "tiny", json, precision = "f32";
  std::int64_t steps = 20, batch = 0;
  std::uint64_t seed = 1;
  bool resident = false;
};

int run_train(const TrainOptions& options);
int run_evaluate(const EvaluateOptions& options);
int run_generate(const GenerateOptions& options);
int run_compare(const CompareOptions& options);

}  // namespace wikitext
