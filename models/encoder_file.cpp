#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/internal/encoder_family.h>
#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/model_source.h>

namespace etna::models {
namespace {

bool is_folder(const FilePath& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

EncoderModel load_encoder_gguf(const FilePath& path, const LoadOptions& options) {
  const io::GgufFile file(path);
  const EncoderConfig config = encoder_config(file);
  StoredWeights weights(path.string(), tensors_of(file), gguf_encoder_places(config, names_of(file)),
                        placement_of(options));
  EncoderModel model{"GGUF", std::make_unique<Encoder>(config, weights), tokenizer_in(file, path)};
  std::vector<std::string> names;
  for (const io::GgufTensor& tensor : file.tensors()) names.push_back(tensor.name);
  check_unused(path.string(), weights.unused(names), [](const std::string& name) {
    return name.starts_with("cls") ? UnusedTensor::other : UnusedTensor::part;
  });
  return model;
}

EncoderModel load_encoder_folder(const FilePath& path, const LoadOptions& options) {
  const FilePath config_file = path / "config.json";
  const EncoderConfig config = encoder_config(read_text(config_file), config_file.string());
  const io::ShardedSafetensors file(path);
  const std::string prefix = encoder_prefix(config, names_of(file));
  StoredWeights weights(path.string(), tensors_of(file), encoder_places(config, prefix, names_of(file)),
                        placement_of(options));
  EncoderModel model{"safetensors", std::make_unique<Encoder>(config, weights), nullptr};
  check_unused(path.string(), weights.unused(file.names()),
               [&](const std::string& name) { return encoder_unused(prefix, name); });
  // Not sentencepiece.bpe.model, whose ids are not those of XLM-R's table.
  for (const char* name : {"tokenizer.json", "vocab.txt"}) {
    if (model.tokenizer == nullptr && is_file(path / name)) model.tokenizer = data::load_tokenizer(path / name);
  }
  return model;
}

}  // namespace

bool is_encoder(const FilePath& path) try {
  if (!is_folder(path)) {
    if (!is_file(path) || !begins_as_gguf(path)) return false;
    return find_encoder_gguf(io::GgufFile(path).string("general.architecture", "")) != nullptr;
  }
  if (!is_file(path / "config.json")) return false;
  const std::string name = (path / "config.json").string();
  const nlohmann::json config = data::parse_json_object(read_text(path / "config.json"), name, "config");
  return find_encoder_hugging_face(data::JsonPart(config, "config", name).text("model_type", "")) != nullptr;
} catch (const FormatError&) {
  return false;  // whoever reads it says what is wrong
}

EncoderModel load_encoder(const FilePath& path, const LoadOptions& options) {
  if (path.string().empty()) throw FormatError("an encoder cannot be read: its path is empty");
  EncoderModel model;
  if (is_folder(path)) {
    if (!is_file(path / "config.json"))
      throw FormatError(fmt::format("{}: the folder has no config.json, as models of Hugging Face do", path.string()));
    model = load_encoder_folder(path, options);
  } else {
    require_plain_file(path);
    if (!is_file(path))
      throw FormatError(fmt::format("{}: there is no such file, or it cannot be read", path.string()));
    if (!begins_as_gguf(path))
      throw FormatError(
          fmt::format("{}: is no encoder: neither a GGUF file nor a folder of Hugging Face", path.string()));
    model = load_encoder_gguf(path, options);
  }
  if (!options.trainable) model.encoder->requires_grad_(false);
  return model;
}

}  // namespace etna::models
