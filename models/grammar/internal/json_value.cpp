#include <etna/models/grammar/internal/json_value.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/internal/utf8_character.h>
#include <etna/models/grammar/internal/source_text.h>

namespace etna::models {
namespace {

/// Builds a JsonValue from the parser's events.
class JsonValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonValueBuilder(const char* what, const GrammarLimits& limits, JsonValue& root)
      : what_(what), limits_(limits), root_(root) {}

  bool null() override {
    place(JsonValue::Kind::null);
    return true;
  }
  bool boolean(bool value) override {
    place(JsonValue::Kind::boolean).flag = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return add_number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add_number(static_cast<double>(value), fmt::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override { return add_number(value, text); }
  bool string(string_t& value) override {
    place(JsonValue::Kind::string).text = value;
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonValue::Kind::object); }
  bool start_array(std::size_t) override { return open(JsonValue::Kind::array); }
  bool end_object() override {
    open_.pop_back();
    seen_.pop_back();
    return true;
  }
  bool end_array() override { return end_object(); }
  bool key(string_t& value) override {
    if (!seen_.back().insert(value).second)
      throw GrammarError(fmt::format("{}: the key {} occurs twice in one object", what_, quoted_json(value)));
    open_.back()->keys.push_back(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view text = error.what();
    const std::size_t syntax = text.find("syntax error");
    std::string why(text.substr(syntax == std::string_view::npos ? 0 : syntax));
    if (const std::size_t cut = why.find('\n'); cut != std::string::npos) why.resize(cut);
    if (why.size() > 200) why = why.substr(0, 200) + " ...";
    throw GrammarError(fmt::format("{}: not JSON: near byte {}: {}", what_, position, why));
  }

 private:
  JsonValue& place(JsonValue::Kind kind) {
    JsonValue* value = &root_;
    if (!open_.empty()) value = &open_.back()->items.emplace_back();
    value->kind = kind;
    return *value;
  }
  bool add_number(double number, std::string text) {
    JsonValue& value = place(JsonValue::Kind::number);
    value.number = number;
    value.text = std::move(text);
    return true;
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() >= static_cast<std::size_t>(std::max(limits_.depth, 1)))
      throw GrammarError(fmt::format("{}: JSON nested more than {} deep (GrammarLimits::depth)", what_, limits_.depth));
    // Only the last item of each open value grows, so these pointers stay valid.
    open_.push_back(&place(kind));
    seen_.emplace_back();
    return true;
  }

  const char* what_;
  const GrammarLimits& limits_;
  JsonValue& root_;
  std::vector<JsonValue*> open_;
  std::vector<std::set<std::string>> seen_;
};

void link_parents(JsonValue& value) {
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    value.items[i].parent = &value;
    link_parents(value.items[i]);
    if (i < value.keys.size()) value.index.emplace(value.keys[i], i);
  }
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &items[found->second];
}

std::string JsonValue::pointer() const {
  if (parent == nullptr) return "#";
  const auto at = static_cast<std::size_t>(this - parent->items.data());
  if (parent->is(Kind::array)) return fmt::format("{}/{}", parent->pointer(), at);
  std::string key;
  for (const char c : parent->keys[at]) {
    if (c == '~')
      key += "~0";
    else if (c == '/')
      key += "~1";
    else
      key += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  if (key.size() > 60) {
    std::size_t end = 0;
    while (end < 60) end += data::utf8_character(key, end).length;
    key = key.substr(0, end) + "...";
  }
  return parent->pointer() + "/" + key;
}

std::string quoted_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  return out + '"';
}

std::string canonical_json(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return "null";
    case JsonValue::Kind::boolean:
      return value.flag ? "true" : "false";
    case JsonValue::Kind::number:
      return value.number == 0 ? "0" : fmt::format("{}", value.number);
    case JsonValue::Kind::string:
      return quoted_json(value.text);
    case JsonValue::Kind::array: {
      std::string out = "[";
      for (const JsonValue& item : value.items) out += canonical_json(item) + ",";
      return out + "]";
    }
    default: {
      std::string out = "{";
      for (const auto& [key, at] : value.index) out += quoted_json(key) + ":" + canonical_json(value.items[at]) + ",";
      return out + "}";
    }
  }
}

std::string brief_json(const JsonValue& value) {
  if (value.is(JsonValue::Kind::array)) return fmt::format("an array of {}", value.items.size());
  if (value.is(JsonValue::Kind::object)) return fmt::format("an object of {} members", value.items.size());
  std::string text = value.is(JsonValue::Kind::number) ? value.text : canonical_json(value);
  if (text.size() <= 60) return text;
  std::size_t end = 0;
  while (end < 57) end += data::utf8_character(text, end).length;
  return text.substr(0, end) + "...";
}

void parse_json(std::string_view text, const char* what, const GrammarLimits& limits, JsonValue& root) {
  check_source(text, what, limits);
  JsonValueBuilder builder(what, limits, root);
  nlohmann::json::sax_parse(text, &builder);
  link_parents(root);
}

}  // namespace etna::models
