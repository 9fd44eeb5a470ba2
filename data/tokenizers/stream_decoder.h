#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// Decodes tokens to text as they arrive. The output is always valid UTF-8: a character whose bytes span several tokens
/// is emitted with the last of them, and invalid bytes are emitted as U+FFFD.
class StreamDecoder {
 public:
  /// @param tokenizer must outlive this object @param show_special emit the spelling of special tokens
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_special = false);

  /// The text that is final after this token; often empty. Ids past the vocabulary decode to nothing: a model with a
  /// padded embedding table can sample them. @throws FormatError for a negative id
  std::string push(std::int32_t id);
  /// Like push() for each of them, without their text. Reads as few of them as the tokenizer allows.
  void skip(std::span<const std::int32_t> ids);
  /// The rest of the text; U+FFFD if the last character is incomplete. The next push() starts a new text.
  std::string finish();

 private:
  void decode(std::int32_t id, DecodeState& state, std::string& text) const;
  std::string take(bool last);

  const Tokenizer& tokenizer_;
  bool show_special_;
  DecodeState state_;
  std::string pending_;
};

/// Replaces each maximal truncated character, and every other invalid byte, by U+FFFD, as the Unicode standard
/// recommends (3.9, "U+FFFD Substitution of Maximal Subparts").
std::string replace_invalid_utf8(std::string_view text);

/// Cuts a stream at the first stop word; buffers a suffix that may start one. The output does not depend on how the
/// text is split into chunks.
class StopWords {
 public:
  /// Empty words stop nothing.
  explicit StopWords(std::vector<std::string> words);

  /// The text that may be shown after this chunk; empty after a stop word.
  std::string push(std::string_view chunk);
  /// The buffered suffix; empty after a stop word.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace etna::data
