#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/encoder.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/model_source.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/io/torch_file.h>
#include <etna/tensor/ops/activations/activations.h>

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

/// The activation of a dense layer, a class of PyTorch. @return nothing for tanh
std::optional<Activation> dense_activation(const data::JsonPart& dense) {
  const std::string type = dense.text("activation_function", "torch.nn.modules.activation.Tanh");
  std::string name = type.substr(type.rfind('.') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "tanh") return std::nullopt;
  if (name == "identity") return Activation::none;
  const std::optional<Activation> found = activation_named(name);
  if (!found) dense.refuse(fmt::format("has the activation '{}', which does not run here", type));
  return found;
}

/// A layer in a folder of its own.
DenseLayer read_dense(const FilePath& folder) {
  const FilePath config = folder / "config.json", file = folder / "model.safetensors";
  const std::string name = config.string();
  const EmbeddingJson root = json_of_file(config);
  const data::JsonPart dense(root, "dense layer", name, kEmbeddingUse);
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const std::string of = dense.text(key, "sentence_embedding"); of != "sentence_embedding")
      dense.refuse(fmt::format("has {} = '{}'; dense layers run here behind pooling only", key, of));
  const auto tensors = is_file(file) ? load_safetensors(file) : load_torch(folder / "pytorch_model.bin");
  const auto find = [&](const char* key) {
    const auto found = tensors.find(key);
    return found == tensors.end() ? Tensor() : found->second.to(kCPU, f32);
  };
  DenseLayer layer{find("linear.weight"), find("linear.bias"), dense_activation(dense)};
  const Shape wanted{dense.integer("out_features", 0), dense.integer("in_features", 0)};
  const Shape found = layer.weight.defined() ? layer.weight.shape() : Shape();
  if (found != wanted || found.rank() != 2)
    dense.refuse(fmt::format("is of the sizes {}, and its weights are {}", str(wanted),
                             layer.weight.defined() ? str(found) : "missing"));
  if (layer.bias.defined() != dense.flag("bias", true) ||
      (layer.bias.defined() && layer.bias.shape() != Shape{wanted[0]}))
    dense.refuse("has a bias that is missing, of another size, or not announced");
  return layer;
}

/// The steps of a model of sentence-transformers, of which modules.json is a list.
void read_modules(const FilePath& folder, EmbeddingSettings& settings) {
  const FilePath file = folder / "modules.json";
  if (!is_file(file)) return;
  const std::string name = file.string();
  // The file is a list, and readers want an object.
  const EmbeddingJson root = data::parse_json_object("{\"modules\":" + read_text(file) + "}", name, "list of modules");
  settings.stated = true;
  bool pooled = false;
  for (const data::JsonPart& step : data::JsonPart(root, "modules", name, kEmbeddingUse).list("modules")) {
    const std::string type = step.text("type");
    const std::string kind = type.substr(type.rfind('.') + 1);
    const FilePath part = folder / std::filesystem::path(step.text("path", ""));
    if (kind == "Pooling") {
      const FilePath config = part / "config.json";
      const EmbeddingJson pooling = json_of_file(config);
      settings.pooling = pooling_in({pooling, "pooling", config.string(), kEmbeddingUse});
      pooled = true;
    } else if (kind == "Normalize") {
      settings.normalize = true;
    } else if (kind == "Dense") {
      if (!pooled || settings.normalize)
        step.refuse("have a dense layer that is not between pooling and normalization, which does not run here");
      settings.dense.push_back(read_dense(part));
    } else if (kind != "Transformer") {
      step.refuse(fmt::format("have a step '{}', which does not run here", kind));
    }
  }
}

/// Whether a model reads in both directions. @param decoder null: it is an encoder
bool reads_both_ways(const Architecture* decoder) {
  DecoderConfig config;
  if (decoder != nullptr) decoder->apply(config);
  return decoder == nullptr || config.bidirectional;
}

EmbeddingSettings settings_of_gguf(const FilePath& path) {
  const io::GgufFile file(path);
  const std::string architecture = file.string("general.architecture", "");
  const std::int64_t kind = file.integer(architecture + ".pooling_type", 0);
  EmbeddingSettings settings;
  settings.pooling = reads_both_ways(find_architecture_gguf(architecture)) ? Pooling::mean : Pooling::last;
  for (const char* name : kGgufDense) {
    const io::GgufTensor* weight = file.find_tensor(name);
    if (weight == nullptr) continue;
    if (weight->shape.rank() != 2)
      throw FormatError(
          fmt::format("{}: '{}' is {}; a dense layer is a matrix", path.string(), name, str(weight->shape)));
    settings.dense.push_back({file.load(*weight).to(f32)});
  }
  settings.stated = kind > 0 && kind != kGgufRank;
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last})
    if (kind == gguf_pooling(pooling)) settings.pooling = pooling;
  // What llama.cpp's servers do with every embedding.
  settings.normalize = settings.stated;
  return settings;
}

}  // namespace

EmbeddingSettings embedding_settings(const FilePath& path) {
  std::error_code ignored;
  if (path.string().ends_with(".gguf")) return settings_of_gguf(path);
  EmbeddingSettings settings;
  const bool folder = std::filesystem::is_directory(path, ignored);
  settings.pooling = Pooling::last;
  if (is_encoder(path) || (folder && is_file(path / "config.json") && folder_config(path).bidirectional))
    settings.pooling = Pooling::mean;
  if (!folder) return settings;
  read_modules(path, settings);
  if (const FilePath file = path / "config_sentence_transformers.json"; is_file(file)) {
    const EmbeddingJson root = json_of_file(file);
    const std::string name = file.string();
    const std::string usual = data::JsonPart(root, "prompts", name, kEmbeddingUse).text("default_prompt_name", "");
    if (const EmbeddingJson* prompts = data::json_field(root, "prompts"); prompts != nullptr) {
      const data::JsonPart texts(*prompts, "prompts", name, kEmbeddingUse);
      for (const auto& [use, text] : prompts->items()) settings.prompts[use] = texts.text(use.c_str(), "");
    }
    if (const auto found = settings.prompts.find(usual); found != settings.prompts.end())
      settings.prefix = found->second;
  }
  if (const FilePath file = path / "sentence_bert_config.json"; is_file(file)) {
    const EmbeddingJson root = json_of_file(file);
    const std::string name = file.string();
    settings.most_tokens = data::JsonPart(root, "config", name, kEmbeddingUse).integer("max_seq_length", 0);
  }
  return settings;
}

}  // namespace etna::models
