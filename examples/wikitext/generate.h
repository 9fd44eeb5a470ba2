#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

#include "text_model.h"

namespace wikitext {

struct Sampling {
  std::int64_t words = 60;   ///< how many tokens
  double temperature = 0.8;  ///< 0: always the most probable token
  std::int64_t top_k = 40;   ///< number of candidate tokens; 0: all
  std::uint64_t seed = 1;
};

/// The words of a prompt that the model does not know. A tokenizer of byte pairs knows all.
std::vector<std::string> unknown_words(const std::string& prompt, const etna::data::Tokenizer& tokenizer);

/// A text for a terminal: its line breaks stay, other control characters become visible escapes.
std::string printable_lines(const std::string& text);

/// Continues the prompt (an empty one starts a line, or a text of byte pairs) token by token, until the end of a text.
std::string generate(TextModel& model, const etna::data::Tokenizer& tokenizer, const std::string& prompt,
                     const Sampling& sampling, etna::Device device);

}  // namespace wikitext
