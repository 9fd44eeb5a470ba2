#include <filesystem>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/model_source.h>

// What files say about how a model's vectors of tokens become an embedding.
namespace etna::models {
namespace {

constexpr const char* kEmbeddingUse = "an embedding model";

using EmbeddingJson = nlohmann::json;

EmbeddingJson json_of_file(const FilePath& file) {
  return data::parse_json_object(read_text(file), file.string(), "config");
}

/// One of the kinds of pooling must be on.
Pooling pooling_in(const data::JsonPart& part) {
  const std::string named = part.text("pooling_mode", "");
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last})
    if (named == name(pooling) || (named == "lasttoken" && pooling == Pooling::last)) return pooling;
  if (!named.empty()) part.refuse(fmt::format("has pooling_mode = '{}', which does not run here", named));
  constexpr std::pair<const char*, Pooling> kKinds[] = {{"pooling_mode_cls_token", Pooling::cls},
                                                        {"pooling_mode_mean_tokens", Pooling::mean},
                                                        {"pooling_mode_lasttoken", Pooling::last}};
  std::optional<Pooling> found;
  for (const auto& [key, pooling] : kKinds) {
    if (!part.flag(key, false)) continue;
    if (found) part.refuse("has several poolings at once, which do not run here");
    found = pooling;
  }
  for (const char* key :
       {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"})
    if (part.flag(key, false)) part.refuse(fmt::format("has '{}', which does not run here", key));
  if (!found) part.refuse("names no pooling");
  return *found;
}

/// The steps of a model of sentence-transformers, of which modules.json is a list.
void read_modules(const FilePath& folder, EmbeddingSettings& settings) {
  const FilePath file = folder / "modules.json";
  if (!is_file(file)) return;
  const std::string name = file.string();
  // The file is a list, and readers want an object.
  const EmbeddingJson root = data::parse_json_object("{\"modules\":" + read_text(file) + "}", name, "list of modules");
  for (const data::JsonPart& step : data::JsonPart(root, "modules", name, kEmbeddingUse).list("modules")) {
    const std::string type = step.text("type");
    const std::string kind = type.substr(type.rfind('.') + 1);
    const FilePath config = folder / std::filesystem::path(step.text("path", "")) / "config.json";
    if (kind == "Pooling") {
      const EmbeddingJson pooling = json_of_file(config);
      settings.pooling = pooling_in({pooling, "pooling", config.string(), kEmbeddingUse});
    } else if (kind == "Normalize") {
      settings.normalize = true;
    } else if (kind != "Transformer") {
      step.refuse(fmt::format("have a step '{}', which does not run here", kind));
    }
  }
}

EmbeddingSettings settings_of_gguf(const FilePath& path) {
  const io::GgufFile file(path);
  const std::string architecture = file.string("general.architecture", "");
  const std::int64_t kind = file.integer(architecture + ".pooling_type", 0);
  EmbeddingSettings settings;
  settings.pooling = is_encoder(path) ? Pooling::mean : Pooling::last;
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last})
    if (kind == gguf_pooling(pooling)) settings.pooling = pooling;
  // What llama.cpp's servers do with every embedding.
  settings.normalize = kind > 0 && kind != kGgufRank;
  return settings;
}

}  // namespace

EmbeddingSettings embedding_settings(const FilePath& path) {
  std::error_code ignored;
  if (path.string().ends_with(".gguf")) return settings_of_gguf(path);
  EmbeddingSettings settings;
  settings.pooling = is_encoder(path) ? Pooling::mean : Pooling::last;
  if (!std::filesystem::is_directory(path, ignored)) return settings;
  read_modules(path, settings);
  if (const FilePath file = path / "config_sentence_transformers.json"; is_file(file)) {
    const EmbeddingJson root = json_of_file(file);
    const std::string name = file.string();
    const std::string usual = data::JsonPart(root, "prompts", name, kEmbeddingUse).text("default_prompt_name", "");
    const EmbeddingJson* prompts = data::json_field(root, "prompts");
    if (!usual.empty() && prompts != nullptr)
      settings.prefix = data::JsonPart(*prompts, "prompts", name, kEmbeddingUse).text(usual.c_str(), "");
  }
  if (const FilePath file = path / "sentence_bert_config.json"; is_file(file)) {
    const EmbeddingJson root = json_of_file(file);
    const std::string name = file.string();
    settings.most_tokens = data::JsonPart(root, "config", name, kEmbeddingUse).integer("max_seq_length", 0);
  }
  return settings;
}

}  // namespace etna::models
