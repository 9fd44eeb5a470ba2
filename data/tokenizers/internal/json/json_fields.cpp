#include <etna/data/tokenizers/internal/json/json_fields.h>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;

bool has_type(const json& value, const char* type) {
  const json* found = json_field(value, "type");
  return found != nullptr && *found == type;
}

bool is_off(const json& object, const char* field) {
  const json* value = json_field(object, field);
  return value == nullptr || *value == false;
}

}  // namespace

bool json_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 100) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

json parse_json_object(std::string_view text, const std::string& name, const char* what) {
  if (json_too_deep(text)) throw FormatError(fmt::format("{}: not a {}: JSON nested more than 100 deep", name, what));
  json root = json::parse(text, nullptr, false);
  if (!root.is_object())
    throw FormatError(fmt::format("{}: not a {}: {}", name, what,
                                  root.is_discarded() ? "invalid or cut off JSON" : "wanted a JSON object"));
  return root;
}

std::string json_text(const std::string& text) {
  if (find_invalid_utf8(text) != std::string::npos)
    throw FormatError(fmt::format("tokenizer: cannot be saved: a token of {} bytes is not UTF-8", text.size()));
  return json(text).dump();
}

std::pair<std::string, std::string> json_merge(const json& item) {
  if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string())
    return {item[0].get<std::string>(), item[1].get<std::string>()};
  if (!item.is_string()) return {};
  const std::string both = item.get<std::string>();
  const std::size_t space = both.find(' ');
  if (space == std::string::npos) return {both, ""};
  return {both.substr(0, space), both.substr(space + 1)};
}

std::string json_brief(const json& value) {
  if ((value.is_array() || value.is_object()) && value.size() > 8)
    return fmt::format("{} of {} entries", value.is_array() ? "an array" : "an object", value.size());
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, text.find_last_of(" ,\"", 60)) + " ...";
  return text;
}

const json* json_field(const json& object, const char* field) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool is_plain_byte_level(const json& root) {
  const json* model = json_field(root, "model");
  const json* split = json_field(root, "pre_tokenizer");
  if (model == nullptr || split == nullptr || !has_type(*model, "BPE") || !has_type(*split, "ByteLevel")) return false;
  const json* regex = json_field(*split, "use_regex");
  if (!is_off(*split, "add_prefix_space") || (regex != nullptr && *regex != true)) return false;
  if (!is_off(*model, "byte_fallback") || !is_off(*model, "ignore_merges")) return false;
  if (json_field(*model, "unk_token") != nullptr || json_field(root, "normalizer") != nullptr) return false;
  for (const char* field : {"post_processor", "decoder"})
    if (const json* value = json_field(root, field); value != nullptr && !has_type(*value, "ByteLevel")) return false;
  const json* config = json_field(root, "tokenizer_config");
  for (const char* field : {"chat_template", "bos_token", "eos_token", "bos_token_id", "eos_token_id"})
    if (config != nullptr && json_field(*config, field) != nullptr) return false;
  const json* added = json_field(root, "added_tokens");
  if (added == nullptr || !added->is_array()) return true;
  for (const json& token : *added) {
    const json* special = json_field(token, "special");
    if (special == nullptr || *special != true || !is_off(token, "single_word") || !is_off(token, "lstrip") ||
        !is_off(token, "rstrip"))
      return false;
  }
  return true;
}

JsonPart::JsonPart(const json& value, std::string what, const std::string& name, const char* use)
    : value_(value), what_(std::move(what)), name_(name), use_(use) {}

void JsonPart::refuse(const std::string& why) const {
  throw FormatError(fmt::format("{}: cannot be used as {}: its {} {}", name_, use_, what_, why));
}

std::string JsonPart::type() const { return text("type"); }

bool JsonPart::flag(const char* field, bool otherwise) const {
  const json* found = find(field);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(fmt::format("has {} = {}; wanted true or false", field, json_brief(*found)));
  return found->get<bool>();
}

std::string JsonPart::text(const char* field) const {
  const json* found = find(field);
  if (found == nullptr || !found->is_string()) refuse(fmt::format("lacks the string '{}'", field));
  return found->get<std::string>();
}

std::string JsonPart::text(const char* field, const std::string& otherwise) const {
  return find(field) == nullptr ? otherwise : text(field);
}

std::int64_t JsonPart::integer(const char* field, std::int64_t otherwise) const {
  const json* found = find(field);
  if (found == nullptr) return otherwise;
  if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<std::uint64_t>() > INT32_MAX) ||
      found->get<std::int64_t>() > INT32_MAX || found->get<std::int64_t>() < INT32_MIN)
    refuse(fmt::format("has {} = {}; wanted a 32-bit integer", field, json_brief(*found)));
  return found->get<std::int64_t>();
}

double JsonPart::number(const char* field, double otherwise) const {
  const json* found = find(field);
  if (found == nullptr) return otherwise;
  if (!found->is_number()) refuse(fmt::format("has {} = {}; wanted a number", field, json_brief(*found)));
  return found->get<double>();
}

std::vector<JsonPart> JsonPart::list(const char* field) const {
  const json* found = find(field);
  if (found == nullptr || !found->is_array()) refuse(fmt::format("lacks the array '{}'", field));
  std::vector<JsonPart> parts;
  for (const json& value : *found) parts.emplace_back(value, what_, name_, use_);
  return parts;
}

std::string JsonPart::pattern(const char* field) const {
  const json* found = find(field);
  if (found != nullptr) {
    if (const json* plain = json_field(*found, "String"); plain != nullptr && plain->is_string())
      return escape_regex(plain->get<std::string>());
    if (const json* regex = json_field(*found, "Regex"); regex != nullptr && regex->is_string())
      return from_ruby_regex(regex->get<std::string>(), name_);
  }
  refuse(fmt::format("lacks a '{}' with a String or a Regex", field));
}

}  // namespace etna::data
