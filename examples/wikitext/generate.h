#pragma once

#include <cstdint>
#include <string>

#include <etna/data/vocabulary.h>
#include <etna/nn/language_model.h>

namespace wikitext {

struct Sampling {
  std::int64_t words = 60;
  double temperature = 0.8;  ///< 0: always the most probable word
  std::int64_t top_k = 40;   ///< number of candidate words; 0: all
  std::uint64_t seed = 1;
};

/// Continues the prompt (an empty one starts a line) word by word. Each word depends on at most the model's `seq` words
/// before it.
std::string generate(etna::nn::LanguageModel& model, const etna::data::Vocabulary& vocabulary,
                     const std::string& prompt, const Sampling& sampling, etna::Device device);

}  // namespace wikitext
