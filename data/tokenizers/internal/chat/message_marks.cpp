#include <etna/data/tokenizers/internal/chat/message_marks.h>

#include <algorithm>
#include <cctype>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/model_tokenizer.h>

namespace etna::data {
namespace {

constexpr std::string_view kOpen = "\xEF\xB7\x90", kClose = "\xEF\xB7\x91", kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kAsciiSpace = " \t\n\r\f\v";

}  // namespace

std::string_view special_spelling(const Tokenizer& tokenizer, std::int32_t id) {
  const auto* model = dynamic_cast<const ModelTokenizer*>(&tokenizer);
  return model != nullptr ? model->spelling(id) : tokenizer.token(id);
}

MessageMarks::MessageMarks(const Tokenizer& tokenizer) {
  for (const std::int32_t id : tokenizer.special_tokens()) {
    const std::string_view text = special_spelling(tokenizer, id);
    if (text.empty()) continue;
    special_.emplace_back(text);
    first_.emplace(text.substr(0, utf8_character(text, 0).length));
  }
}

bool MessageMarks::begins_special(std::string_view text, bool whole) const {
  if (first_.find(text.substr(0, utf8_character(text, 0).length)) == first_.end()) return false;
  return !whole || std::any_of(special_.begin(), special_.end(),
                               [&](const std::string& special) { return text.starts_with(special); });
}

std::string MessageMarks::mark(const ChatMessage& message) const {
  const std::string_view text = message.content;
  const bool assistant = message.role == "assistant";
  // White space around a message stays outside the marks, so that templates can strip it.
  const std::size_t begin = text.find_first_not_of(kAsciiSpace);
  if (begin == std::string_view::npos) return message.content;
  const std::size_t end = text.find_last_not_of(kAsciiSpace) + 1;
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text, at).length;
    const std::string_view character = text.substr(at, length);
    if (at == begin && !assistant) marked += kClose;
    const bool own = character == kOpen || character == kClose;
    const bool special = begins_special(text.substr(at), assistant);
    if (special) marked += kOpen;
    marked += own ? kReplacement : character;
    if (special) marked += kClose;
    at += length;
    if (at == end) marked += kClose;
  }
  return marked;
}

std::string MessageMarks::mark_assistant(const std::string& text) const { return mark({"assistant", text}); }

nlohmann::ordered_json MessageMarks::mark_json(const nlohmann::ordered_json& value) const {
  using nlohmann::ordered_json;
  if (value.is_array()) {
    ordered_json list = ordered_json::array();
    for (const ordered_json& item : value) list.push_back(mark_json(item));
    return list;
  }
  if (value.is_object()) {
    ordered_json object = ordered_json::object();
    for (const auto& item : value.items())
      object[mark_json(ordered_json(item.key())).get_ref<const std::string&>()] = mark_json(item.value());
    return object;
  }
  if (!value.is_string()) return value;
  const std::string_view text = value.get_ref<const std::string&>();
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text, at).length;
    const std::string_view character = text.substr(at, length);
    const bool word = length == 1 && std::isalnum(static_cast<unsigned char>(character[0])) != 0;
    const bool own = character == kOpen || character == kClose;
    const bool special = begins_special(text.substr(at), word);
    if (special) marked += kOpen;
    marked += own ? kReplacement : character;
    if (special) marked += kClose;
    at += length;
  }
  return marked;
}

std::vector<TextPart> MessageMarks::split(std::string_view text) const {
  std::vector<TextPart> parts(1, {"", SpecialTokens::recognize});
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text, at).length;
    const std::string_view character = text.substr(at, length);
    if (character == kOpen || character == kClose) {
      const SpecialTokens special = character == kOpen ? SpecialTokens::as_text : SpecialTokens::recognize;
      if (!parts.back().text.empty()) parts.push_back({"", special});
      parts.back().special = special;
    } else {
      parts.back().text += character;
    }
    at += length;
  }
  if (parts.back().text.empty()) parts.pop_back();
  return parts;
}

}  // namespace etna::data
