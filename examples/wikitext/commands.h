#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/strict_device.h>
#include <etna/nn/neural_cache.h>

#include "generate.h"
#include "settings.h"

/// The subcommands. Each returns the process's exit code and throws Etna's errors.
namespace wikitext {

/// The source of the text: a WikiText folder, any text file, or the embedded corpus.
struct DataOptions {
  std::string data;  ///< --data, else $ETNA_DATA
  std::string text;  ///< --text
};

/// @param strict --strict @throws etna::DeviceError
inline etna::Device device_of(const std::string& requested, bool strict) {
  return strict ? etna::select_device_strictly(requested) : etna::select_device(requested);
}

struct TrainOptions {
  DataOptions data;
  std::string program = "wikitext";  ///< as the user called it
  std::string device, preset = "tiny", config, out, json;
  bool resume = false, force = false, print_config = false, strict = false;
  bool evaluate = true, eager = false, resident = false, forecast = true;
  bool profile = false, profile_exact = false;
  std::string trace;  ///< --trace
  std::int64_t profile_steps = 20;
};

struct EvaluateOptions {
  DataOptions data;
  std::string device, run, json, precision = "f32";
  bool with_cache = false, strict = false, force = false;
  etna::nn::NeuralCacheOptions cache;
};

struct GenerateOptions {
  std::string device, run, prompt;
  bool strict = false;
  Sampling sampling;
};

struct CompareOptions {
  DataOptions data;
  std::vector<std::string> devices = {"cpu", "vulkan:0"};
  std::vector<std::string> precisions;  ///< empty: the preset's
  std::string preset = "tiny", json, picture;
  std::int64_t steps = 20;
  bool epoch = false, resident = false, force = false;
};

/// @param settings those of the command line; others are filled in
int run_train(const TrainOptions& options, Settings& settings, SettingList& list);
int run_evaluate(const EvaluateOptions& options);
int run_generate(const GenerateOptions& options);
int run_chat(const GenerateOptions& options);
int run_compare(const CompareOptions& options, Settings& settings, SettingList& list);

}  // namespace wikitext
