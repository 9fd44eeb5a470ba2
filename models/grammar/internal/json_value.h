#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <etna/models/grammar/grammar.h>

namespace etna::models {

/// A value of a JSON document. Members keep their order.
struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  bool flag = false;             ///< boolean
  double number = 0;             ///< number, rounded as other programs do
  std::string text;              ///< string; number: as it is written
  std::vector<JsonValue> items;  ///< of an array; values of an object's members
  std::vector<std::string> keys;
  std::map<std::string_view, std::size_t> index;  ///< of a key in items
  const JsonValue* parent = nullptr;

  bool is(Kind other) const { return kind == other; }
  /// The member of an object; null if it is missing, or this is no object.
  const JsonValue* find(std::string_view key) const;
  /// The JSON pointer of this value in its document: "#", "#/properties/a".
  std::string pointer() const;
};

/// Equal for values that JSON schema takes for equal: whatever the order of members, and 1 like 1.0.
std::string canonical_json(const JsonValue& value);
/// A value in about 60 bytes at most, for errors.
std::string brief_json(const JsonValue& value);
/// A string as JSON, in quotes; only what must be escaped is.
std::string quoted_json(std::string_view text);

/// @param what for errors. Parents point into `root`, which must not move afterwards.
/// @throws GrammarError for invalid JSON, a key that occurs twice in an object, and values nested too deep
void parse_json(std::string_view text, const char* what, const GrammarLimits& limits, JsonValue& root);

}  // namespace etna::models
