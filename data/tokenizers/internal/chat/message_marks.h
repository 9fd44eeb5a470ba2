#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// A special token as people and programs spell it; Tokenizer::token() of some kinds gives it no text.
std::string_view special_spelling(const Tokenizer& tokenizer, std::int32_t id);

/// Marks in messages that a program puts into a text, so that special tokens which people spell are told from those of
/// the program. Marks are Unicode's noncharacters U+FDD0 and U+FDD1, which no text has. Internal.
class MessageMarks {
 public:
  explicit MessageMarks(const Tokenizer& tokenizer);

  /// The content with marks: of an assistant's, which a model wrote, around the beginning of each special token; of
  /// others around each character that a special token begins with, so that not even a program that changes the text
  /// makes one of it, and where the content begins and ends.
  std::string mark(const ChatMessage& message) const;
  /// A text without the marks, in parts: between the two marks special tokens are not recognized.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  bool begins_special(std::string_view text, bool whole) const;

  std::vector<std::string> special_;
  std::set<std::string, std::less<>> first_;  ///< their first characters
};

}  // namespace etna::data
