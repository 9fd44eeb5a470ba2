#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace etna::data {

/// Whether JSON is nested deeper than any program writes it. Parsing it is safe, but printing it could overflow the
/// stack.
bool json_too_deep(std::string_view text);

/// Parses a JSON object. @param name, what for errors: "NAME: not a WHAT: ..." @throws FormatError for invalid JSON,
/// another type of value, and for nesting more than 100 deep
nlohmann::json parse_json_object(std::string_view text, const std::string& name, const char* what = "tokenizer");

/// A quoted JSON string. @throws FormatError for text that is not UTF-8
std::string json_text(const std::string& text);

/// A value in about 60 bytes at most, for errors.
std::string json_brief(const nlohmann::json& value);

/// The two tokens of a merge, which is an array of two strings or one string with a space. Empty for other values.
std::pair<std::string, std::string> json_merge(const nlohmann::json& item);

/// A field of an object; null if the field is missing or null, or the value is not an object.
const nlohmann::json* json_field(const nlohmann::json& object, const char* field);

/// Whether BpeTokenizer can read a tokenizer.json: byte-level BPE with GPT-2's pre-tokenizer, and no added tokens but
/// special ones.
bool is_plain_byte_level(const nlohmann::json& root);

/// Reads a part of a tokenizer.json, or of another JSON file, field by field; every error names file, part and field.
class JsonPart {
 public:
  /// @param what such as "normalizer" @param use what the file is for
  JsonPart(const nlohmann::json& value, std::string what, const std::string& name, const char* use = "a tokenizer");

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
  double number(const char* field, double otherwise) const;
  /// An array of parts. @throws FormatError if it is missing
  std::vector<JsonPart> list(const char* field) const;
  /// The field {"String": ...} or {"Regex": ...} as a regular expression for RegexSplitter.
  std::string pattern(const char* field) const;

 private:
  const nlohmann::json& value_;
  std::string what_;
  const std::string& name_;
  const char* use_;
};

}  // namespace etna::data
