#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/data/vocabulary.h>
#include <etna/nn/language_model.h>

namespace wikitext {

struct Sampling {
  std::int64_t words = 60;
  double temperature = 0.8;  ///< 0: always the most probable word
  std::int64_t top_k = 40;   ///< number of candidate words; 0: all
  std::uint64_t seed = 1;
};

/// The words of a prompt that the model does not know.
std::vector<std::string> unknown_words(const std::string& prompt, const etna::data::Vocabulary& vocabulary);

/// A text for a terminal: its line breaks stay, other control characters become visible escapes.
std::string printable_lines(const std::string& text);

/// Continues the prompt (an empty one starts a line) word by word. Each word depends on at most the model's `seq` words
/// before it.
std::string generate(etna::nn::LanguageModel& model, const etna::data::Vocabulary& vocabulary,
                     const std::string& prompt, const Sampling& sampling, etna::Device device);

}  // namespace wikitext
