#include <etna/models/adapter_file.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/json_fields.h>
#include <etna/models/head_order.h>
#include <etna/models/weight_names.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>

namespace etna::models {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string name;  ///< "blocks.0.attention.query"
  Projection* layer;
};

std::vector<Layer> layers_of(Decoder& decoder) {
  std::vector<Layer> list;
  for (std::size_t i = 0; i < decoder.blocks.size(); ++i) {
    DecoderBlock& b = decoder.blocks[i];
    for (const auto& [part, layer] : {std::pair<const char*, Projection*>{"attention.query", &b.attention.query},
                                      {"attention.key", &b.attention.key},
                                      {"attention.value", &b.attention.value},
                                      {"attention.output", &b.attention.output},
                                      {"ffn.gate", b.ffn.gate.get()},
                                      {"ffn.up", &b.ffn.up},
                                      {"ffn.down", &b.ffn.down}})
      if (layer != nullptr) list.push_back({fmt::format("blocks.{}.{}", i, part), layer});
  }
  return list;
}

/// The two kinds of files, and what they call a layer's adapter.
struct FileKind {
  bool gguf = false;
  const DecoderConfig* config = nullptr;

  /// @param which 'a' or 'b'
  std::string name_of(const std::string& layer, char which) const {
    if (gguf) return fmt::format("{}.lora_{}", gguf_name(layer + ".weight"), which);
    const HasTensor has = [](const std::string& name) {
      return name.starts_with("model.") && !name.starts_with("model.language_model.");
    };
    std::string plain = hugging_face_places(*config, has)(layer + ".weight").name;
    plain.resize(plain.size() - std::string_view(".weight").size());
    return fmt::format("base_model.model.{}.lora_{}.weight", plain, which == 'a' ? 'A' : 'B');
  }

  /// Files have the rows of rotated heads in one order, whatever the decoder's is.
  bool turns(const std::string& layer) const {
    const bool rotated = layer.ends_with(".query") || layer.ends_with(".key");
    return rotated && config->architecture == "llama" && config->rope.interleaved != gguf;
  }
  Tensor to_file(const std::string& layer, const Tensor& rows) const {
    if (!turns(layer)) return rows;
    return gguf ? with_neighbours(rows, config->head_size) : with_halves(rows, config->head_size);
  }
  Tensor from_file(const std::string& layer, const Tensor& rows) const {
    if (!turns(layer)) return rows;
    return gguf ? with_halves(rows, config->head_size) : with_neighbours(rows, config->head_size);
  }
};

/// What a file says: values in f32 by name, and the factor of all adapters times their rank.
struct AdapterFile {
  std::map<std::string, Tensor> tensors;
  double alpha = 0;  ///< 0: the factor is 1
};

AdapterFile read_gguf(const fs::path& path) {
  const io::GgufFile file(path);
  if (file.string("adapter.type", "none") != "lora")
    throw FormatError(
        fmt::format("{}: the file holds no low-rank adapters ('adapter.type' is not \"lora\")", path.string()));
  AdapterFile read;
  read.alpha = file.number("adapter.lora.alpha", 0);
  for (const io::GgufTensor& tensor : file.tensors()) read.tensors.emplace(tensor.name, file.load(tensor).to(f32));
  return read;
}

nlohmann::json read_peft_config(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw FormatError(fmt::format("{}: the file cannot be read", path.string()));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  nlohmann::json config = data::parse_json_object(text, path.string());
  for (const char* key : {"r", "lora_alpha"}) {
    if (!config.contains(key) || !config[key].is_number())
      throw FormatError(fmt::format("{}: '{}' is no number", path.string(), key));
  }
  for (const char* key : {"use_dora", "use_rslora", "fan_in_fan_out", "alpha_pattern"}) {
    if (!config.contains(key)) continue;
    const nlohmann::json& value = config[key];
    if (value == true || (value.is_object() && !value.empty()))
      throw FormatError(fmt::format("{}: adapters with '{}' do not run here", path.string(), key));
  }
  return config;
}

AdapterFile read_peft(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const fs::path weights = folder ? path / "adapter_model.safetensors" : path;
  AdapterFile read;
  read.alpha = read_peft_config(weights.parent_path() / "adapter_config.json")["lora_alpha"].get<double>();
  for (const auto& [name, tensor] : load_safetensors(weights)) read.tensors.emplace(name, tensor.to(f32));
  return read;
}

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

void write_peft_config(const fs::path& path, const std::set<std::string>& targets, std::int64_t rank, double alpha) {
  const nlohmann::json config = {{"peft_type", "LORA"},       {"task_type", "CAUSAL_LM"}, {"r", rank},
                                 {"lora_alpha", alpha},       {"lora_dropout", 0.0},      {"bias", "none"},
                                 {"target_modules", targets}, {"fan_in_fan_out", false},  {"inference_mode", true}};
  std::ofstream out(path);
  out << config.dump(2) << "\n";
  out.close();
  if (!out) throw FormatError(fmt::format("{}: the file cannot be written", path.string()));
}

}  // namespace

void save_adapters(const fs::path& path, const Decoder& decoder) {
  const FileKind kind{is_gguf(path), &decoder.config};
  const bool packed = decoder.config.architecture == "gpt2" || decoder.config.architecture == "phi3";
  NamedTensors tensors;
  std::set<std::string> targets;
  std::int64_t rank = 0;
  double scale = 0;
  for (const auto& [name, layer] : layers_of(const_cast<Decoder&>(decoder))) {
    if (!layer->has_adapter()) continue;
    if (packed && (name.ends_with(".query") || name.ends_with(".key") || name.ends_with(".value"))) {
      throw FormatError(
          fmt::format("{}: files of {} have queries, keys and values in one matrix, their adapters cannot "
                      "be written apart; merge them and write the model",
                      path.string(), decoder.config.architecture));
    }
    const std::int64_t own = layer->lora_a.size(0);
    if (rank != 0 && (own != rank || layer->lora_scale != scale))
      throw FormatError(fmt::format("{}: adapters of different ranks or factors cannot be in one file", path.string()));
    rank = own;
    scale = layer->lora_scale;
    tensors.emplace_back(kind.name_of(name, 'a'), layer->lora_a.detach().to(kCPU, f32));
    tensors.emplace_back(kind.name_of(name, 'b'), kind.to_file(name, layer->lora_b.detach().to(kCPU, f32)));
    const std::string plain = kind.name_of(name, 'a').substr(0, kind.name_of(name, 'a').rfind(".lora_A"));
    targets.insert(plain.substr(plain.rfind('.') + 1));
  }
  if (rank == 0) throw FormatError(fmt::format("{}: the decoder has no adapters to write", path.string()));
  const double alpha = scale * static_cast<double>(rank);
  if (!kind.gguf) {
    save_safetensors(path, tensors, {{"format", "pt"}});
    write_peft_config(path.parent_path() / "adapter_config.json", targets, rank, alpha);
    return;
  }
  save_gguf(path, tensors,
            {.metadata = {{"general.type", std::string("adapter")},
                          {"general.architecture", decoder.config.architecture},
                          {"adapter.type", std::string("lora")},
                          {"adapter.lora.alpha", static_cast<float>(alpha)}}});
}

void load_adapters(const fs::path& path, Decoder& decoder) {
  const FileKind kind{is_gguf(path), &decoder.config};
  AdapterFile file = kind.gguf ? read_gguf(path) : read_peft(path);
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (!std::isfinite(file.alpha)) refuse("the adapters' factor (alpha) is no finite number");
  struct Found {
    std::string name;
    Projection* layer;
    Tensor a, b;
  };
  std::vector<Found> found;
  for (const auto& [name, layer] : layers_of(decoder)) {
    if (layer->has_adapter()) refuse("the model has adapters already; merge them first");
    auto a = file.tensors.extract(kind.name_of(name, 'a')), b = file.tensors.extract(kind.name_of(name, 'b'));
    if (!a && !b) continue;
    if (!a || !b) refuse(fmt::format("of the adapter of {} only one half is there", name));
    const Tensor &down = a.mapped(), &up = b.mapped();
    const bool fits = down.dim() == 2 && up.dim() == 2 && down.size(0) > 0 && down.size(0) == up.size(1) &&
                      down.size(1) == layer->in && up.size(0) == layer->out;
    if (!fits) {
      refuse(fmt::format("the adapter of {} is {} and {}; wanted [rank, {}] and [{}, rank]", name, str(down.shape()),
                         str(up.shape()), layer->in, layer->out));
    }
    found.push_back({name, layer, down, kind.from_file(name, up)});
  }
  if (!file.tensors.empty()) refuse(fmt::format("'{}' belongs to no layer of the model", file.tensors.begin()->first));
  if (found.empty()) refuse("there are no adapters in it");
  decoder.requires_grad_(false);
  for (const Found& f : found) {
    const double scale = file.alpha == 0 ? 1 : file.alpha / static_cast<double>(f.a.size(0));
    f.layer->set_adapter(f.a, f.b, scale);
  }
}

}  // namespace etna::models
