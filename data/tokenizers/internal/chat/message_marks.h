#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// The spelling of a special token. Tokenizer::token() of some kinds returns no text for it.
std::string_view special_spelling(const Tokenizer& tokenizer, std::int32_t id);

/// Marks message content before a template inserts it into its output, to distinguish special tokens spelled in
/// messages from those that the template writes. The marks are Unicode's noncharacters U+FDD0 and U+FDD1, which do not
/// occur in text. Internal.
class MessageMarks {
 public:
  explicit MessageMarks(const Tokenizer& tokenizer);

  /// Adds marks to a message's content. In the assistant's messages, which a model wrote, they surround the beginning
  /// of each special token. In all others they surround the whole content and each character that may begin a special
  /// token, so that a template cannot create one even by editing the text.
  std::string mark(const ChatMessage& message) const;
  /// Marks what the assistant wrote.
  std::string mark_assistant(const std::string& text) const;
  /// Adds marks to all strings and keys of JSON: each character that may begin a special token, except for letters and
  /// digits that begin none here, so that templates still recognize the words of a schema.
  nlohmann::ordered_json mark_json(const nlohmann::ordered_json& value) const;
  /// Removes the marks and splits the text into parts: special tokens are not recognized between two marks.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  bool begins_special(std::string_view text, bool whole) const;

  std::vector<std::string> special_;
  std::set<std::string, std::less<>> first_;  ///< first characters of special tokens
};

}  // namespace etna::data
