#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/data/vocabulary.h>

#include "text_model.h"

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

/// Continues the prompt (an empty one starts a line) word by word. @param seq a transformer looks at as many words at
/// most
std::string generate(TextModel& model, std::int64_t seq, const etna::data::Vocabulary& vocabulary,
                     const std::string& prompt, const Sampling& sampling, etna::Device device);

}  // namespace wikitext
