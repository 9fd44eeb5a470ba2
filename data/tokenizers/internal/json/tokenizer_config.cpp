#include <etna/data/tokenizers/internal/json/tokenizer_config.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::json;

/// A token is given as a string, or as an object with its properties.
json token_text(const json& config, const char* field) {
  const json* found = json_field(config, field);
  if (found == nullptr) return nullptr;
  if (const json* content = json_field(*found, "content")) found = content;
  return found->is_string() ? *found : json(nullptr);
}

/// A template is given as a string, or as an array of named templates, of which "default" is used.
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

/// The fields about a tokenizer in the files of its folder.
json fields_of_folder(const FilePath& file) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const std::filesystem::path config = folder / "tokenizer_config.json", generation = folder / "generation_config.json",
                              jinja = folder / "chat_template.jinja";
  json fields = json::object();
  if (std::filesystem::is_regular_file(config, none)) {
    const json root = parse_json_object(read_text_file(config), config.string());
    for (const char* field : {"bos_token", "eos_token"}) fields[field] = token_text(root, field);
    fields["chat_template"] = template_text(root);
  }
  if (std::filesystem::is_regular_file(generation, none)) {
    const json root = parse_json_object(read_text_file(generation), generation.string());
    for (const char* field : {"bos_token_id", "eos_token_id"})
      if (const json* found = json_field(root, field)) fields[field] = *found;
  }
  if (std::filesystem::is_regular_file(jinja, none)) fields["chat_template"] = read_text_file(jinja);
  return fields;
}

/// Ids of generation_config.json: one, or an array. Ids past the vocabulary belong to a padded embedding table, and
/// never to text.
std::vector<std::int32_t> ids_in(const JsonPart& part, const char* field, std::size_t tokens) {
  const json* found = part.find(field);
  if (found == nullptr) return {};
  std::vector<std::int32_t> ids;
  for (const json& id : found->is_array() ? *found : json::array({*found})) {
    if (!id.is_number_integer() || id < 0)
      part.refuse(fmt::format("has {} = {}, which is not a token id", field, json_brief(*found)));
    if (id.get<std::uint64_t>() < tokens) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

std::string wordpiece_json(std::string_view vocabulary, const std::string& name) {
  const std::filesystem::path config = std::filesystem::path(name).parent_path() / "tokenizer_config.json";
  std::error_code none;
  const json settings = std::filesystem::is_regular_file(config, none)
                            ? parse_json_object(read_text_file(config), config.string())
                            : json::object();
  const JsonPart part(settings, "tokenizer_config", name);
  json vocab = json::object(), added = json::array();
  std::int64_t id = 0;
  for (std::size_t at = 0; at < vocabulary.size(); ++id) {
    const std::size_t end = std::min(vocabulary.find('\n', at), vocabulary.size());
    std::string token(vocabulary.substr(at, end - at));
    if (token.ends_with('\r')) token.pop_back();
    if (find_invalid_utf8(token) != std::string::npos)
      throw FormatError(fmt::format("{}: not a vocabulary of WordPiece: line {} is not UTF-8", name, id + 1));
    vocab[token] = id;  // of equal ones, the last counts, as in Hugging Face's transformers
    at = end + 1;
  }
  const auto special = [&](const char* field, const char* usual) {
    const json given = token_text(settings, field);
    std::string token = given.is_string() ? given.get<std::string>() : usual;
    const auto found = vocab.find(token);
    if (found == vocab.end())
      throw FormatError(fmt::format("{}: not a vocabulary of WordPiece: it has no token '{}'", name, token));
    const bool known = std::any_of(added.begin(), added.end(), [&](const json& one) { return one["id"] == *found; });
    if (!known) added.push_back({{"id", *found}, {"content", token}, {"special", true}, {"normalized", false}});
    return json::array({token, *found});
  };
  const json unknown = special("unk_token", "[UNK]"), sep = special("sep_token", "[SEP]"),
             cls = special("cls_token", "[CLS]");
  for (const auto& [field, usual] : {std::pair{"pad_token", "[PAD]"}, {"mask_token", "[MASK]"}})
    if (token_text(settings, field).is_string() || vocab.contains(usual)) special(field, usual);
  const bool lowercase = part.flag("do_lower_case", true);
  const json root = {{"added_tokens", added},
                     {"normalizer",
                      {{"type", "BertNormalizer"},
                       {"lowercase", lowercase},
                       {"strip_accents", part.flag("strip_accents", lowercase)},
                       {"handle_chinese_chars", part.flag("tokenize_chinese_chars", true)}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"post_processor", {{"type", "BertProcessing"}, {"sep", sep}, {"cls", cls}}},
                     {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                     {"model", {{"type", "WordPiece"}, {"unk_token", unknown[0]}, {"vocab", vocab}}}};
  return root.dump();
}

std::string with_tokenizer_config(std::string text, const FilePath& file) {
  const std::size_t brace = text.find('{');
  if (brace == std::string::npos || text.find("\"tokenizer_config\"") != std::string::npos) return text;
  const json fields = fields_of_folder(file);
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
  const std::vector<std::int32_t> begins = ids_in(part, "bos_token_id", plan.tokens.size()),
                                  ends = ids_in(part, "eos_token_id", plan.tokens.size());
  if (const auto bos = find("bos_token"))
    plan.bos = bos;
  else if (!begins.empty())
    plan.bos = begins[0];
  auto eos = find("eos_token");
  if (!eos && !ends.empty()) eos = ends[0];
  if (eos && plan.eos && *eos != *plan.eos && !is_end_of_turn(plan.tokens[static_cast<std::size_t>(*plan.eos)]))
    std::erase(plan.end_tokens, *plan.eos);  // it was named by its spelling alone
  if (eos) plan.eos = eos;
  if (eos) plan.end_tokens.push_back(*eos);
  plan.end_tokens.insert(plan.end_tokens.end(), ends.begin(), ends.end());
  std::sort(plan.end_tokens.begin(), plan.end_tokens.end());
  plan.end_tokens.erase(std::unique(plan.end_tokens.begin(), plan.end_tokens.end()), plan.end_tokens.end());
  plan.chat_template = part.text("chat_template", "");
}

void apply_tokenizer_config(const FilePath& file, VocabularyFields& vocabulary) {
  const json fields = fields_of_folder(file);
  const std::string name = file.string();
  const JsonPart part(fields, "tokenizer_config", name);
  // Tokens added to those of the model are not in its vocabulary.
  const auto find = [&](const char* field) -> std::optional<std::int64_t> {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), part.text(field, ""));
    return found == vocabulary.tokens.end() ? std::nullopt : std::optional(found - vocabulary.tokens.begin());
  };
  const std::vector<std::int32_t> begins = ids_in(part, "bos_token_id", vocabulary.tokens.size()),
                                  ends = ids_in(part, "eos_token_id", vocabulary.tokens.size());
  if (const auto bos = find("bos_token"))
    vocabulary.bos = bos;
  else if (!begins.empty())
    vocabulary.bos = begins[0];
  if (const auto eos = find("eos_token"))
    vocabulary.eos = eos;
  else if (!ends.empty())
    vocabulary.eos = ends[0];
  vocabulary.end_tokens.insert(vocabulary.end_tokens.end(), ends.begin(), ends.end());
  if (part.find("chat_template") != nullptr) vocabulary.chat_template = part.text("chat_template");
}

}  // namespace etna::data
