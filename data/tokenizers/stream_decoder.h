#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Gives the text of tokens as they come. What it gives is always UTF-8: a character whose bytes are spread over
/// several tokens comes with the last of them, and bytes that are no character come as U+FFFD.
class StreamDecoder {
 public:
  /// @param tokenizer must outlive this object @param show_special special tokens give their spelling, not nothing
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_special = false);

  /// The text that is certain after this token; often empty. An id beyond the tokens has none: a model whose table of
  /// embeddings is padded can draw such. @throws FormatError for an id below 0
  std::string push(std::int32_t id);
  /// The rest: U+FFFD where the last character lacks bytes. The next push() begins a new text.
  std::string finish();

 private:
  std::string take(bool last);

  const Tokenizer& tokenizer_;
  bool show_special_;
  DecodeState state_;
  std::string pending_;
};

/// A text with U+FFFD for each longest run of bytes that begins a character and does not end it, and for each other
/// byte that is not UTF-8, as the Unicode standard recommends (3.9, "U+FFFD Substitution of Maximal Subparts").
std::string replace_invalid_utf8(std::string_view text);

/// Ends a text that comes in pieces before the first of some stop words, and holds back what may begin one. What comes
/// out does not depend on where the pieces end.
class StopWords {
 public:
  /// Empty words stop nothing.
  explicit StopWords(std::vector<std::string> words);

  /// The text that may be shown after this piece; nothing once a stop word came.
  std::string push(std::string_view piece);
  /// What was held back, where no stop word came.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace etna::data
