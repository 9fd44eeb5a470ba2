#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/nn/language_model.h>

namespace wikitext {

/// A model and its training settings.
struct Preset {
  std::string name;
  etna::nn::LanguageModelConfig model;  ///< vocab 0: taken from the corpus
  std::int64_t batch = 16;
  double lr = 1e-3;
  std::int64_t steps = 0;  ///< steps to train if neither --epochs nor --steps is given; 0: one epoch
};

/// @param name demo, tiny, small or gpt2 @throws etna::Error for any other name
Preset find_preset(std::string_view name);
std::vector<std::string> preset_names();

/// The preset's model for a corpus with this many words: gpt2 is padded to 50,257, the others use the corpus's number.
etna::nn::LanguageModelConfig model_config(const Preset& preset, std::int64_t words);

}  // namespace wikitext
