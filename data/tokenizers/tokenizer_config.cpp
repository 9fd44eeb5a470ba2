#include <etna/data/tokenizers/tokenizer_config.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/json_fields.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;

/// A token is given by its text, or by an object with its properties.
json token_text(const json& config, const char* field) {
  const json* found = json_field(config, field);
  if (found == nullptr) return nullptr;
  if (const json* content = json_field(*found, "content")) found = content;
  return found->is_string() ? *found : json(nullptr);
}

/// A template is given by its text, or in a list of several with names, of which "default" counts.
json template_text(const json& config) {
  const json* found = json_field(config, "chat_template");
  if (found == nullptr) return nullptr;
  if (found->is_string()) return *found;
  if (!found->is_array()) return nullptr;
  for (const json& named : *found) {
    const json* name = json_field(named, "name");
    const json* text = json_field(named, "template");
    if (name != nullptr && *name == "default" && text != nullptr && text->is_string()) return *text;
  }
  return nullptr;
}

}  // namespace

std::string with_tokenizer_config(std::string text, const FilePath& file) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const std::filesystem::path config = folder / "tokenizer_config.json", jinja = folder / "chat_template.jinja";
  const std::size_t brace = text.find('{');
  if (brace == std::string::npos || text.find("\"tokenizer_config\"") != std::string::npos) return text;
  json fields = json::object();
  if (std::filesystem::is_regular_file(config, none)) {
    const json root = parse_json_object(read_text_file(config), config.string());
    for (const char* field : {"bos_token", "eos_token"}) fields[field] = token_text(root, field);
    fields["chat_template"] = template_text(root);
  }
  if (std::filesystem::is_regular_file(jinja, none)) fields["chat_template"] = read_text_file(jinja);
  if (fields.empty()) return text;
  text.insert(brace + 1, fmt::format("\"tokenizer_config\":{},", fields.dump()));
  return text;
}

void apply_tokenizer_config(const std::string& config, const std::string& name, TokenizerPlan& plan) {
  const json root = json::parse(config);
  const JsonPart part(root, "tokenizer_config", name);
  const auto find = [&](const char* field) -> std::optional<std::int32_t> {
    const std::string text = part.text(field, "");
    if (text.empty()) return std::nullopt;
    const auto found = std::find(plan.tokens.begin(), plan.tokens.end(), text);
    if (found == plan.tokens.end())
      part.refuse(fmt::format("has {} = {}, which is not in the vocabulary", field, json_brief(json(text))));
    return static_cast<std::int32_t>(found - plan.tokens.begin());
  };
  if (const auto bos = find("bos_token")) plan.bos = bos;
  if (const auto eos = find("eos_token")) {
    plan.eos = eos;
    if (std::count(plan.end_tokens.begin(), plan.end_tokens.end(), *eos) == 0) plan.end_tokens.push_back(*eos);
  }
  plan.chat_template = part.text("chat_template", "");
}

}  // namespace etna::data
