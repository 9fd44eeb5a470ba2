#include <algorithm>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/internal/splits/split_patterns.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/models/model_file.h>

namespace etna::models {
namespace {

using Json = nlohmann::json;

/// Collects the regular expressions of a pre-tokenizer.
void collect_patterns(const Json& step, std::vector<std::string>& patterns, bool& gpt2) {
  if (!step.is_object()) return;
  const std::string type = step.value("type", "");
  if (type == "Sequence" && step.contains("pretokenizers")) {
    for (const Json& inner : step["pretokenizers"]) collect_patterns(inner, patterns, gpt2);
  } else if (type == "Split" && step.contains("pattern") && step["pattern"].contains("Regex")) {
    patterns.push_back(step["pattern"]["Regex"].get<std::string>());
  } else if (type == "ByteLevel" && step.value("use_regex", true)) {
    gpt2 = true;
  }
}

/// The name that GGUF files have for a rule, of those with one expression; empty if it has none.
std::string rule_name(const Json& pre_tokenizer) {
  std::vector<std::string> patterns;
  bool gpt2 = false;
  collect_patterns(pre_tokenizer, patterns, gpt2);
  if (gpt2 && patterns.empty()) return "gpt-2";
  for (const char* name : {"llama-bpe", "qwen2", "gpt-4o", "tekken", "gpt-2"}) {
    if (!gpt2 && data::split_rule(name, name).patterns == patterns) return name;
  }
  return "";
}

/// Sets a token of a vocabulary whose ids may have gaps.
void put_token(data::VocabularyFields& fields, const std::string& token, std::size_t id, std::int32_t type) {
  if (id >= (std::size_t{1} << 24)) return;
  if (fields.tokens.size() <= id) {
    fields.tokens.resize(id + 1);
    fields.types.resize(id + 1, 5);
  }
  fields.tokens[id] = token;
  fields.types[id] = type;
}

/// BERT's tokenizer, of which llama.cpp knows the one that lowercases. @return nothing for another one
std::optional<data::VocabularyFields> of_wordpiece_json(const Json& root) {
  const Json& model = root["model"];
  const Json normalizer = root.value("normalizer", Json::object());
  const bool lowercases = normalizer.value("lowercase", true);
  const Json* accents = data::json_field(normalizer, "strip_accents");
  if (normalizer.value("type", "") != "BertNormalizer" || !lowercases || (accents != nullptr && *accents != true) ||
      !normalizer.value("clean_text", true) || !normalizer.value("handle_chinese_chars", true) ||
      model.value("continuing_subword_prefix", "##") != "##" || !model.contains("vocab"))
    return std::nullopt;
  data::VocabularyFields fields;
  fields.model = "bert";
  for (const auto& [token, id] : model["vocab"].items())
    put_token(fields, token.starts_with("##") ? token.substr(2) : std::string(data::kSpaceSymbol) + token,
              id.get<std::size_t>(), 1);
  for (const Json& added : root.value("added_tokens", Json::array()))
    put_token(fields, added.at("content").get<std::string>(), added.at("id").get<std::size_t>(),
              added.value("special", true) ? 3 : 4);
  const auto id_of = [&](const std::string& token) -> std::optional<std::int64_t> {
    const auto found = std::find(fields.tokens.begin(), fields.tokens.end(), token);
    return found == fields.tokens.end() ? std::nullopt : std::optional(found - fields.tokens.begin());
  };
  fields.unk = id_of(model.value("unk_token", "[UNK]"));
  return fields;
}

std::optional<data::VocabularyFields> of_tokenizer_json(const Json& root) {
  const Json* model = data::json_field(root, "model");
  if (model != nullptr && model->value("type", "") == "WordPiece") return of_wordpiece_json(root);
  if (model == nullptr || model->value("type", "BPE") != "BPE" || !model->contains("vocab") ||
      !model->contains("merges"))
    return std::nullopt;
  data::VocabularyFields fields;
  fields.model = "gpt2";
  fields.pre = rule_name(root.value("pre_tokenizer", Json()));
  if (fields.pre.empty()) return std::nullopt;
  std::size_t size = 0;
  const auto put = [&](const std::string& token, std::size_t id, std::int32_t type) {
    size = std::max(size, id + 1);
    put_token(fields, token, id, type);
  };
  for (const auto& [token, id] : (*model)["vocab"].items()) put(token, id.get<std::size_t>(), 1);
  for (const Json& added : root.value("added_tokens", Json::array()))
    put(added.at("content").get<std::string>(), added.at("id").get<std::size_t>(),
        added.value("special", true) ? 3 : 4);
  if (size != fields.tokens.size()) return std::nullopt;
  for (const Json& merge : (*model)["merges"]) {
    const auto [left, right] = data::json_merge(merge);
    fields.merges.push_back(left + " " + right);
  }
  return fields;
}

}  // namespace

std::optional<data::VocabularyFields> vocabulary_fields(const data::Tokenizer& tokenizer) {
  if (tokenizer.name() == "word") return std::nullopt;
  const std::string json = tokenizer.json(), name(tokenizer.name());
  if (name == "sentencepiece" || name == "unigram" || name == "byte-level bpe" || name == "bpe of characters" ||
      name == "wordpiece")
    return data::parse_vocabulary_json(json, name);
  std::optional<data::VocabularyFields> fields = of_tokenizer_json(data::parse_json_object(json, name));
  if (!fields) return std::nullopt;
  if (tokenizer.bos()) fields->bos = *tokenizer.bos();
  if (tokenizer.eos()) fields->eos = *tokenizer.eos();
  for (const std::int32_t end : tokenizer.end_tokens())
    if (fields->eos != end) fields->end_tokens.push_back(end);
  fields->chat_template = tokenizer.chat_template();
  const std::vector<std::int32_t> empty = tokenizer.encode_prompt("", {});
  fields->add_bos = !empty.empty() && tokenizer.bos() && empty.front() == *tokenizer.bos();
  if (empty.size() == 2 && fields->model == "bert") {
    fields->bos = empty.front();
    fields->eos = empty.back();
    fields->add_bos = fields->add_eos = true;
  } else if (empty.size() == 2 && tokenizer.eos() && empty.back() == *tokenizer.eos()) {
    fields->add_eos = true;
  }
  return fields;
}

}  // namespace etna::models
