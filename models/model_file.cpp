#include <etna/models/model_file.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/expert_tensors.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/latent_tensors.h>
#include <etna/models/internal/model_source.h>
#include <etna/models/internal/mtp_head.h>
#include <etna/models/internal/vision_names.h>
#include <etna/models/internal/weight_names.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/llama2c.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>

namespace etna::models {
namespace {

namespace fs = std::filesystem;

/// The factor of a BitNet matrix.
double scale_in(const std::string& name, const Tensor& values) {
  if (values.numel() != 1)
    throw FormatError(fmt::format("'{}' is {}; a matrix has one scale", name, str(values.shape())));
  return values.to(f32).flatten().to_vector<double>().front();
}

/// What to name instead of a folder that is no model.
[[noreturn]] void refuse_folder(const FilePath& path) {
  std::vector<std::string> models;
  std::error_code ignored;
  for (fs::directory_iterator at(fs::path(path), ignored), end; at != end && !ignored; at.increment(ignored)) {
    const std::string kind = at->path().extension().string();
    if (kind == ".gguf" || kind == ".bin" || kind == ".safetensors") models.push_back(at->path().filename().string());
  }
  std::sort(models.begin(), models.end());
  throw FormatError(fmt::format(
      "{}: the folder has no config.json, as models of Hugging Face do; {}", path.string(),
      models.empty() ? "it holds no other model either"
                     : fmt::format("to load a file of another kind, name the file: {}", name_list(models, "'"))));
}

/// A weight that GGUF files have in their metadata: a parameter of xIELU, "blk.3.xielu.alpha_p".
std::optional<StoredTensor> in_metadata(const io::GgufFile& file, const std::string& name) {
  const std::size_t at = name.find("xielu.");
  const io::GgufValue* value = at == std::string::npos ? nullptr : file.find(name.substr(at));
  if (value == nullptr) return std::nullopt;
  std::vector<float> each{0};
  std::size_t layer = 0;
  if (value->is_list()) {
    each = file.numbers(name.substr(at));
    std::from_chars(name.data() + std::string_view("blk.").size(), name.data() + at, layer);
  } else {
    each[0] = static_cast<float>(file.number(name.substr(at)));
  }
  if (layer >= each.size()) return std::nullopt;
  return StoredTensor{&quant::format_named("F32"), {1}, {}, from_vector(std::vector<float>{each[layer]})};
}

/// A decoder without a head has the matrix of its embedding for one.
DecoderConfig config_to_load(DecoderConfig config, const LoadOptions& options) {
  if (!options.headless) return config;
  config.tied = true;
  config.head_bias = false;
  return config;
}

/// Reads the head for further tokens where it is asked for.
void add_mtp(const FilePath& path, Decoder& decoder, StoredWeights& weights, const LoadOptions& options) {
  const DecoderConfig& config = decoder.config;
  const bool converts = options.mtp_for_gguf && config.next_layers > 0 && architecture_of(config).next_in_gguf &&
                        weights.has(fmt::format("blocks.{}.mtp.combine.weight", config.layers));
  if (!options.mtp && !converts) return;
  if (config.next_layers == 0)
    throw FormatError(fmt::format("{}: there is no layer for further tokens (MTP) behind the last one", path.string()));
  try {
    decoder.add_mtp(weights);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{} (the layer for further tokens, MTP, was asked for)", error.what()));
  }
}

Model load_gguf_model(const FilePath& path, const LoadOptions& options) {
  const io::GgufFile file(path);
  const DecoderConfig config = config_to_load(decoder_config(file), options);
  const auto find = [file, stored = tensors_of(file)](const std::string& name) {
    return file.find_tensor(name) == nullptr ? in_metadata(file, name) : stored(name);
  };
  StoredWeights weights(path.string(), with_latent_halves(path.string(), find, config),
                        gguf_places(config, names_of(file)), placement_of(options));
  weights.has_decay_rates = true;
  if (config.ternary_scales) {
    weights.factor_of = [file](const std::string& name) -> std::optional<double> {
      if (!name.ends_with(".weight")) return std::nullopt;
      const io::GgufTensor* scale = file.find_tensor(name.substr(0, name.size() - 6) + "scale");
      return scale == nullptr ? std::nullopt : std::optional(scale_in(scale->name, file.load(*scale)));
    };
  }
  const ModelSplit split = weights.divide(config, options.split);
  Model model{"GGUF", std::make_unique<Decoder>(config, weights, split), nullptr};
  add_mtp(path, *model.decoder, weights, options);
  std::vector<std::string> names;
  for (const io::GgufTensor& tensor : file.tensors()) names.push_back(tensor.name);
  check_unused(path.string(), weights.unused(names), [&](const std::string& name) {
    const bool known =
        (config.ternary_scales && name.ends_with(".scale")) || (options.headless && name.starts_with("output."));
    return known ? UnusedTensor::known : gguf_unused(config, name);
  });
  model.tokenizer = tokenizer_in(file, path);
  return model;
}

Model load_folder(const FilePath& path, const LoadOptions& options) {
  DecoderConfig config = config_to_load(folder_config(path), options);
  const io::ShardedSafetensors file(path);
  const HasTensor has = names_of(file);
  config.next_layers = next_layers_in(config, has);
  const bool sees = has_vision(path);
  const ExpertRules& experts = architecture_of(config).experts;
  StoredWeights weights(path.string(),
                        experts.in_by_out ? experts_by_row(path.string(), tensors_of(file), config) : tensors_of(file),
                        hugging_face_places(config, hugging_face_prefix(config, has), has), placement_of(options));
  weights.norm_offset = architecture_of(config).norm_offset;
  weights.rounds_to_ternary = config.rounds_to_ternary;
  if (config.ternary_scales) {
    weights.factor_of = [&file](const std::string& name) -> std::optional<double> {
      const std::string scale = name + "_scale";
      return file.contains(scale) ? std::optional(scale_in(scale, file.load(scale))) : std::nullopt;
    };
  }
  const ModelSplit split = weights.divide(config, options.split);
  Model model{"safetensors", std::make_unique<Decoder>(config, weights, split), nullptr};
  add_mtp(path, *model.decoder, weights, options);
  check_unused(path.string(), weights.unused(file.names()), [&](const std::string& name) {
    const bool head = name.ends_with(hugging_face_part(architecture_of(config), "output") + ".bias");
    const bool known = (config.ternary_scales && name.ends_with("_scale")) ||
                       (experts.in_by_out && is_part_of_experts(name)) || (sees && is_of_vision(name)) ||
                       (options.headless && (head || name == kScoreHead));
    return known ? UnusedTensor::known : hugging_face_unused(config, has, name);
  });
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (model.tokenizer == nullptr && is_file(path / name)) model.tokenizer = data::load_tokenizer(path / name);
  }
  return model;
}

Model load_llama2c_model(const FilePath& path, const LoadOptions& options) {
  const io::Llama2cCheckpoint file(path);
  const auto find = [&file](const std::string& name) -> std::optional<StoredTensor> {
    for (const io::Llama2cTensor& tensor : file.tensors())
      if (tensor.name == name) return StoredTensor{&quant::format_named("F32"), tensor.shape, file.bytes(name)};
    return std::nullopt;
  };
  StoredWeights weights(path.string(), find, llama2c_places(), placement_of(options));
  const DecoderConfig config = decoder_config(file.config());
  const ModelSplit split = weights.divide(config, options.split);
  Model model{"llama2.c", std::make_unique<Decoder>(config, weights, split), nullptr};
  const fs::path tokenizer = fs::path(path).parent_path() / "tokenizer.bin";
  if (is_file(tokenizer)) model.tokenizer = data::load_tokenizer(tokenizer);
  return model;
}

/// A file that checkpoint_state() describes: "model" and, if it is there, "vocabulary".
Model load_checkpoint_model(const FilePath& path, const LoadOptions& options) {
  const CheckpointState state = read_checkpoint(path);
  const auto config = state.metadata.find("config");
  if (config == state.metadata.end()) {
    throw FormatError(fmt::format(
        "{}: the checkpoint's metadata has no \"config\", so it does not say what model it is of", path.string()));
  }
  nn::StateDict weights, vocabulary;
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with("model.")) weights.emplace(name.substr(6), tensor);
    if (name.starts_with("vocabulary.")) vocabulary.emplace(name.substr(11), tensor);
  }
  Model model{"checkpoint", decoder_of(decoder_config(config->second, path.string()), weights, options, path.string()),
              nullptr};
  data::TokenizerState tokenizer{model.tokenizer};
  if (!vocabulary.empty()) tokenizer.load_state_dict(vocabulary);
  return model;
}

}  // namespace

DecoderConfig folder_config(const FilePath& path) {
  if (!is_file(path / "config.json")) refuse_folder(path);
  return decoder_config(read_text(path / "config.json"), (path / "config.json").string());
}

void require_plain_file(const FilePath& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw FormatError(fmt::format("{}: is a pipe or a device, not a file", path.string()));
}

std::unique_ptr<Decoder> decoder_of(const DecoderConfig& config, const nn::StateDict& state, const LoadOptions& options,
                                    const std::string& name) {
  const auto find = [&state](const std::string& wanted) -> std::optional<StoredTensor> {
    const auto found = state.find(wanted);
    if (found == state.end()) return std::nullopt;
    const Tensor values = found->second.to(kCPU).contiguous();
    return StoredTensor{format_of(values.dtype()), values.shape(), {}, values};
  };
  const HasTensor has = [&state](const std::string& wanted) { return state.contains(wanted); };
  StoredWeights weights(name, find, checkpoint_places(config, has), placement_of(options));
  const ModelSplit split = weights.divide(config, options.split);
  auto decoder = std::make_unique<Decoder>(config, weights, split);
  std::vector<std::string> names;
  for (const auto& [own, tensor] : state) names.push_back(own);
  check_unused(name, weights.unused(names), [](const std::string&) { return UnusedTensor::part; });
  if (!options.trainable) decoder->requires_grad_(false);
  return decoder;
}

std::optional<RenamedWeight> renamed_weight(const CheckpointState& checkpoint) {
  return renamed_weight([&](const std::string& name) {
    return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                       [&](const auto& tensor) { return tensor.first == "model." + name; });
  });
}

data::VocabularyFields vocabulary_of(const io::GgufFile& file) {
  const auto key = [](const char* last) { return std::string("tokenizer.ggml.") + last; };
  const auto there = [&](const char* last) { return file.find(key(last)) != nullptr; };
  const auto flag = [&](const char* last) {
    return there(last) ? std::optional(file.boolean(key(last))) : std::nullopt;
  };
  const auto id = [&](const char* last) -> std::optional<std::int64_t> {
    if (!there(last)) return std::nullopt;
    const std::int64_t value = file.integer(key(last));
    // Writers say "none" by the largest number.
    return value == 0xffffffff || value < 0 ? std::nullopt : std::optional(value);
  };
  data::VocabularyFields fields;
  fields.model = file.string(key("model"));
  fields.pre = file.string(key("pre"), "");
  fields.tokens = file.strings(key("tokens"));
  if (there("scores")) fields.scores = file.numbers(key("scores"));
  if (there("token_type")) {
    for (const std::int64_t type : file.integers(key("token_type")))
      fields.types.push_back(static_cast<std::int32_t>(type));
  }
  if (there("merges")) fields.merges = file.strings(key("merges"));
  fields.bos = id("bos_token_id");
  fields.eos = id("eos_token_id");
  if (fields.model == "bert") {
    if (const auto begin = id("cls_token_id")) fields.bos = begin;
    if (const auto end = id("seperator_token_id")) fields.eos = end;  // as llama.cpp spells it
  }
  fields.unk = id("unknown_token_id");
  fields.pad = id("padding_token_id");
  for (const char* end : {"eot_token_id", "eom_token_id"})
    if (const auto token = id(end)) fields.end_tokens.push_back(*token);
  fields.add_bos = flag("add_bos_token");
  fields.add_eos = flag("add_eos_token");
  fields.add_space_prefix = flag("add_space_prefix");
  fields.remove_extra_whitespaces = flag("remove_extra_whitespaces").value_or(false);
  if (there("precompiled_charsmap")) {
    for (const std::int64_t byte : file.integers(key("precompiled_charsmap")))
      fields.precompiled_charsmap.push_back(static_cast<char>(byte));
  }
  fields.chat_template = file.string("tokenizer.chat_template", "");
  return fields;
}

namespace {

/// @throws Error where a layer on a GPU would attend to keys that are on the CPU
void check_host_layers(const DecoderConfig& config, std::int64_t host_layers) {
  for (std::int64_t i = host_layers; i < std::ssize(config.each_layer); ++i) {
    const std::int64_t source = config.layer(i).shares;
    if (source >= 0 && source < host_layers)
      throw Error(
          fmt::format("load_model: host_layers is {}, but layer {} attends to keys of layer {}; wanted at most "
                      "{}, or all {} layers",
                      host_layers, i, source, source, config.layers));
  }
}

Model model_in(const FilePath& path, const LoadOptions& options) {
  if (path.string().empty()) throw FormatError("a model cannot be read: its path is empty");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path, options);
  require_plain_file(path);
  std::ifstream in(fs::path(path), std::ios::binary);
  char magic[4] = {};
  if (!in) throw FormatError(fmt::format("{}: there is no such file, or it cannot be read", path.string()));
  in.read(magic, sizeof magic);
  if (std::string_view(magic, 4) == "GGUF") return load_gguf_model(path, options);
  if (path.string().ends_with(".safetensors")) return load_checkpoint_model(path, options);
  return load_llama2c_model(path, options);
}

}  // namespace

Model load_model(const FilePath& path, const LoadOptions& options) {
  if (options.trainable && options.split.is_split())
    throw Error("load_model: a model that is divided over ranks can only generate; set trainable or split, not both");
  if ((options.mtp || options.mtp_for_gguf) && (options.trainable || options.split.is_split()))
    throw Error(
        "load_model: a head for further tokens (MTP) guesses for a whole model that is not trained; leave it out");
  Model model = model_in(path, options);
  if (options.mtp && !model.decoder->mtp)
    throw FormatError(fmt::format("{}: files of this kind have no head for further tokens (MTP)", path.string()));
  if (options.host_layers < 0 || options.host_layers > model.decoder->config.layers) {
    throw Error(fmt::format("load_model: host_layers is {}; {} has {} layers", options.host_layers, path.string(),
                            model.decoder->config.layers));
  }
  check_host_layers(model.decoder->config, options.host_layers);
  if (!options.trainable) model.decoder->requires_grad_(false);
  return model;
}

}  // namespace etna::models
