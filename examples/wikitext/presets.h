#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/nn/language_model.h>

namespace wikitext {

/// A model and how to train it.
struct Preset {
  std::string name;
  etna::nn::LanguageModelConfig model;  ///< vocab 0: the corpus decides
  std::int64_t batch = 16;
  double lr = 1e-3;
  std::int64_t steps = 0;  ///< how long to train where neither --epochs nor --steps says; 0: one epoch
};

/// @param name demo, tiny, small or gpt2. @throws etna::Error for any other
Preset find_preset(std::string_view name);
std::vector<std::string> preset_names();

/// The preset's model for a corpus of so many words: gpt2 is padded to 50,257, the others take what is there.
etna::nn::LanguageModelConfig model_config(const Preset& preset, std::int64_t words);

}  // namespace wikitext
