#include "presets.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace wikitext {
namespace {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"demo", {.layers = 2, .heads = 4, .dim = 128, .ffn = 512, .seq = 64}, 16, 2e-3, 600},
      {"tiny", {.layers = 2, .heads = 4, .dim = 128, .ffn = 512, .seq = 64}, 16, 1e-3, 0},
      {"small", {.layers = 6, .heads = 8, .dim = 512, .ffn = 2048, .seq = 256}, 32, 6e-4, 0},
      {"gpt2", {.layers = 12, .heads = 12, .dim = 768, .ffn = 3072, .seq = 1024, .vocab = 50257}, 16, 6e-4, 0},
  };
  return all;
}

}  // namespace

Preset find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  throw etna::Error(fmt::format("preset '{}' is none of demo, tiny, small, gpt2", name));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

etna::nn::LanguageModelConfig model_config(const Preset& preset, std::int64_t words) {
  etna::nn::LanguageModelConfig config = preset.model;
  config.vocab = std::max(config.vocab, words);
  return config;
}

}  // namespace wikitext
