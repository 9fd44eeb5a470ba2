#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Learns a tokenizer from a text that arrives in parts, cut as TextBlocks cuts them.
class TokenizerLearner {
 public:
  virtual ~TokenizerLearner() = default;
  virtual void add(std::string_view text) = 0;
  /// The end of a file whose last line has no line break.
  virtual void end_line() {}
  virtual std::unique_ptr<Tokenizer> finish() = 0;
};

/// @param kind "word" or "bpe" @param vocab_size of words: 0 for no limit
/// @throws FormatError for another kind, or a vocabulary too small for it
std::unique_ptr<TokenizerLearner> make_learner(const std::string& kind, std::int64_t vocab_size,
                                               std::int64_t min_frequency);

}  // namespace etna::data
