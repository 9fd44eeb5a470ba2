#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace etna::data {

/// The object that a JSON text is. @param name, what for errors: "NAME: is no WHAT: ..." @throws FormatError for a text
/// that is no JSON, or another value, and for objects and lists nested more than 100 deep
nlohmann::json parse_json_object(std::string_view text, const std::string& name, const char* what = "tokenizer");

/// A JSON string. @throws FormatError for a text that is not UTF-8
std::string json_text(const std::string& text);

/// A value in at most about 60 bytes, for errors.
std::string json_brief(const nlohmann::json& value);

/// The two tokens of a merge: a list of two strings, or a string with a space between. Empty ones for other values.
std::pair<std::string, std::string> json_merge(const nlohmann::json& item);

/// Null for a field that is missing or null, and for what is no object.
const nlohmann::json* json_field(const nlohmann::json& object, const char* field);

/// Whether a tokenizer.json is of the kind that BpeTokenizer writes: GPT-2's splitting, special tokens only, nothing
/// else.
bool is_plain_byte_level(const nlohmann::json& root);

/// A part of a tokenizer.json, read field by field; every refusal names file, part and field.
class JsonPart {
 public:
  /// @param what such as "normalizer"
  JsonPart(const nlohmann::json& value, std::string what, const std::string& name);

  [[noreturn]] void refuse(const std::string& why) const;
  const nlohmann::json& value() const { return value_; }
  const std::string& name() const { return name_; }
  /// The field "type".
  std::string type() const;
  const nlohmann::json* find(const char* field) const { return json_field(value_, field); }
  bool flag(const char* field, bool otherwise) const;
  std::string text(const char* field) const;
  std::string text(const char* field, const std::string& otherwise) const;
  std::int64_t integer(const char* field, std::int64_t otherwise) const;
  /// A list of parts. @throws FormatError if it is missing
  std::vector<JsonPart> list(const char* field) const;
  /// A field {"String": ...} or {"Regex": ...} as a regular expression for RegexSplitter.
  std::string pattern(const char* field) const;

 private:
  const nlohmann::json& value_;
  std::string what_;
  const std::string& name_;
};

}  // namespace etna::data
