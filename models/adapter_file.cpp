#include <etna/models/model_file.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/head_order.h>
#include <etna/models/internal/packed_adapter.h>
#include <etna/models/internal/peft_config.h>
#include <etna/models/internal/weight_names.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>

namespace etna::models {
namespace {

namespace fs = std::filesystem;

/// With names such as "blocks.0.attention.query".
std::vector<NamedProjection> adapter_file_layers_of(Decoder& decoder) {
  std::vector<NamedProjection> list;
  for (std::size_t i = 0; i < decoder.blocks.size(); ++i) {
    for (const NamedProjection& own : decoder.blocks[i].projections())
      list.push_back({fmt::format("blocks.{}.{}", i, own.name), own.layer});
  }
  return list;
}

/// The two kinds of files, and where they have a layer's adapter.
class FileKind {
 public:
  FileKind(bool gguf, const DecoderConfig& config)
      : gguf_(gguf), config_(config), architecture_(architecture_of(config)) {}

  bool gguf() const { return gguf_; }
  /// The place of a layer's matrix in the model's file, which may have several in one.
  /// @param has true for a matrix that has an adapter of its own
  StoredPlace place_of(const std::string& layer, const HasTensor& has) const {
    if (!gguf_ && architecture_.qkv_by_head)
      throw FormatError(
          "adapters of matrices that hold a query, key and value for each head are read from and written "
          "to GGUF files only");
    const StoredWeights::Locate places =
        gguf_ ? gguf_places(config_, has) : hugging_face_places(config_, std::string(architecture_.prefix), has);
    const StoredPlaces found = places(layer + ".weight");
    if (found.size() > 1)
      throw FormatError(
          fmt::format("adapters of '{}', whose rows are not together in '{}', are neither read nor written", layer,
                      found.front().name));
    return found.front();
  }
  /// Whether files that are written have a matrix for itself.
  bool writes_alone(const std::string& matrix) const {
    const auto is = [&](const char* name) { return matrix.find(name) != std::string::npos; };
    const bool of_qkv =
        gguf_ ? is("attn_q.") || is("attn_k.") || is("attn_v.") : is(".q_proj.") || is(".k_proj.") || is(".v_proj.");
    const bool of_gate = gguf_ ? is("ffn_gate.") : is(".gate_proj.") || is(".up_proj.");
    return !(architecture_.packs_qkv() && of_qkv) && !(architecture_.packs_gate() && of_gate);
  }
  /// @param matrix "model.layers.0.self_attn.q_proj.weight"; files of GGUF have none
  std::string magnitudes_name(const std::string& matrix) const {
    return fmt::format("base_model.model.{}.lora_magnitude_vector", module_of(matrix));
  }
  /// @param matrix "blk.0.attn_q.weight" @param which 'a' or 'b'
  std::string name_of(const std::string& matrix, char which) const {
    if (gguf_) return fmt::format("{}.lora_{}", matrix, which);
    return fmt::format("base_model.model.{}.lora_{}.weight", module_of(matrix), which == 'a' ? 'A' : 'B');
  }
  /// What PEFT calls a matrix: its module.
  std::string module_of(const std::string& matrix) const {
    return matrix.substr(0, matrix.size() - std::string_view(".weight").size());
  }
  /// As short as it is the same in all blocks and means nothing else.
  std::string target_of(const std::string& matrix) const {
    const std::string module = module_of(matrix);
    std::size_t dot = module.rfind('.');
    for (int words = 1; words < architecture_.target_words; ++words) dot = module.rfind('.', dot - 1);
    return module.substr(dot + 1);
  }

  /// Files have the rows of rotated heads in one order, whatever the decoder's is.
  Tensor to_file(const std::string& layer, const Tensor& rows) const {
    if (!turns(layer)) return rows;
    return gguf_ ? with_neighbours(rows, config_.head_size) : with_halves(rows, config_.head_size);
  }
  Tensor from_file(const std::string& layer, const Tensor& rows) const {
    if (!turns(layer)) return rows;
    return gguf_ ? with_halves(rows, config_.head_size) : with_neighbours(rows, config_.head_size);
  }

 private:
  bool turns(const std::string& layer) const {
    const bool rotated = layer.ends_with(".query") || layer.ends_with(".key");
    return rotated && architecture_.neighbours_in_gguf && config_.rope.interleaved != gguf_;
  }

  bool gguf_;
  const DecoderConfig& config_;
  const Architecture& architecture_;
};

/// A matrix of a model's file: the decoder's layers that have their rows in it, and where these begin.
struct FileMatrix {
  std::string name;
  std::vector<std::pair<NamedProjection, std::int64_t>> layers;
  std::int64_t rows = 0;
};

std::vector<FileMatrix> matrices_of(Decoder& decoder, const FileKind& kind, const HasTensor& has) {
  std::vector<FileMatrix> list;
  for (const NamedProjection& layer : adapter_file_layers_of(decoder)) {
    const StoredPlace place = kind.place_of(layer.name, has);
    const auto same = [&](const FileMatrix& matrix) { return matrix.name == place.name; };
    auto found = std::find_if(list.begin(), list.end(), same);
    if (found == list.end()) found = list.insert(list.end(), {place.name, {}, 0});
    found->layers.push_back({layer, place.begin});
    found->rows = std::max(found->rows, place.begin + layer.layer->out);
  }
  return list;
}

/// What a file says: values in f32 by name, and the factor of all adapters times their rank.
struct AdapterFile {
  std::map<std::string, Tensor> tensors;
  double alpha = 0;                   ///< 0: the factor is 1
  std::set<std::int64_t> ranks = {};  ///< empty: any
  bool magnitudes = false;            ///< each adapter has some
};

AdapterFile read_gguf(const FilePath& path) {
  const io::GgufFile file(path);
  if (file.string("adapter.type", "none") != "lora")
    throw FormatError(
        fmt::format("{}: the file holds no low-rank adapters ('adapter.type' is not \"lora\")", path.string()));
  AdapterFile read;
  read.alpha = file.number("adapter.lora.alpha", 0);
  for (const io::GgufTensor& tensor : file.tensors()) read.tensors.emplace(tensor.name, file.load(tensor).to(f32));
  return read;
}

AdapterFile read_peft(const FilePath& path, const DecoderConfig& config) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const fs::path weights = folder ? path / "adapter_model.safetensors" : path;
  AdapterFile read;
  const PeftConfig config_file =
      read_peft_config(weights.parent_path() / "adapter_config.json", architecture_of(config).in_by_out);
  read.alpha = config_file.alpha;
  read.ranks = config_file.ranks;
  read.magnitudes = config_file.magnitudes;
  for (const auto& [name, tensor] : load_safetensors(weights)) read.tensors.emplace(name, tensor.to(f32));
  return read;
}

void check_magnitudes(const FilePath& path, bool gguf, bool all_rows) {
  if (gguf)
    throw FormatError(
        fmt::format("{}: GGUF files hold no adapters with magnitudes (DoRA); write them as PEFT does, or merge them",
                    path.string()));
  if (all_rows) return;
  throw FormatError(
      fmt::format("{}: a matrix of this model's files packs several layers, and some of them have no adapter; with "
                  "magnitudes (DoRA) all need one",
                  path.string()));
}

bool is_gguf(const FilePath& path) { return path.string().ends_with(".gguf"); }

/// An adapter of a file, and where it goes.
struct FoundAdapter {
  Projection* layer;
  Tensor a, b;
  double scale;
  Tensor magnitudes = {};  ///< undefined where there are none
};

/// The magnitudes of a matrix in a file. @throws FormatError for others than the matrix's rows
Tensor magnitudes_in(const FilePath& path, const AdapterFile& file, const std::string& name, std::int64_t rows) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end())
    throw FormatError(fmt::format("{}: '{}' is missing, and adapter_config.json says use_dora", path.string(), name));
  if (found->second.numel() != rows) {
    throw FormatError(
        fmt::format("{}: '{}' is {}; wanted [{}]", path.string(), name, str(found->second.shape()), rows));
  }
  return found->second.reshape({rows, 1});
}

/// Reads a file and checks that it fits.
std::vector<FoundAdapter> find_adapters(const FilePath& path, Decoder& decoder) {
  const FileKind kind(is_gguf(path), decoder.config);
  const AdapterFile file = kind.gguf() ? read_gguf(path) : read_peft(path, decoder.config);
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (!std::isfinite(file.alpha)) refuse("the adapters' factor (alpha) is no finite number");
  std::vector<FoundAdapter> found;
  std::set<std::string> known;
  const auto alone = [&](const std::string& matrix) { return file.tensors.contains(kind.name_of(matrix, 'a')); };
  for (const FileMatrix& matrix : matrices_of(decoder, kind, alone)) {
    const auto a = file.tensors.find(kind.name_of(matrix.name, 'a')),
               b = file.tensors.find(kind.name_of(matrix.name, 'b'));
    if (a == file.tensors.end() && b == file.tensors.end()) continue;
    // A gated layer whose gate has no adapter is not packed, whatever the names say.
    auto layers = matrix.layers;
    std::int64_t rows = matrix.rows;
    if (layers.size() == 2 && layers[0].first.name.ends_with(".gate") && b != file.tensors.end() &&
        b->second.dim() == 2 && b->second.size(0) == layers[1].first.layer->out) {
      layers = {{layers[1].first, 0}};
      rows = layers[0].first.layer->out;
    }
    const std::string& name = layers[0].first.name;
    if (a == file.tensors.end() || b == file.tensors.end())
      refuse(fmt::format("of the adapter of {} only one half is there", name));
    const Tensor &down = a->second, &up = b->second;
    const std::int64_t in = layers[0].first.layer->in;
    const bool fits = down.dim() == 2 && up.dim() == 2 && down.size(0) > 0 && down.size(0) == up.size(1) &&
                      down.size(1) == in && up.size(0) == rows;
    if (!fits) {
      refuse(fmt::format("the adapter of {} is {} and {}; wanted [rank, {}] and [{}, rank]", name, str(down.shape()),
                         str(up.shape()), in, rows));
    }
    if (!file.ranks.empty() && !file.ranks.contains(down.size(0)))
      refuse(fmt::format("the adapter of {} has rank {}, and adapter_config.json says {}", name, down.size(0),
                         fmt::join(file.ranks, ", ")));
    Tensor magnitudes;
    if (file.magnitudes) {
      magnitudes = magnitudes_in(path, file, kind.magnitudes_name(matrix.name), rows);
      known.insert(kind.magnitudes_name(matrix.name));
    }
    for (const auto& [layer, begin] : layers) {
      const auto own_rows = [&, at = begin, end = begin + layer.layer->out](const Tensor& all) {
        return kind.from_file(layer.name, all.slice(0, at, end).clone());
      };
      const double scale = file.alpha == 0 ? 1 : file.alpha / static_cast<double>(down.size(0));
      found.push_back({layer.layer, down.clone(), own_rows(up), scale});
      if (magnitudes.defined()) found.back().magnitudes = own_rows(magnitudes).squeeze(-1);
    }
    known.insert({a->first, b->first});
  }
  for (const auto& [name, tensor] : file.tensors)
    if (!known.contains(name)) refuse(fmt::format("'{}' belongs to no layer of the model", name));
  if (found.empty()) refuse("there are no adapters in it");
  return found;
}

}  // namespace

void save_adapters(const FilePath& path, const Decoder& decoder) {
  decoder.require_whole("save_adapters");
  const FileKind kind(is_gguf(path), decoder.config);
  const auto alone = [&](const std::string& matrix) { return kind.writes_alone(matrix); };
  NamedTensors tensors;
  PeftConfig peft{.in_by_out = architecture_of(decoder.config).in_by_out};
  for (const FileMatrix& matrix : matrices_of(const_cast<Decoder&>(decoder), kind, alone)) {
    std::vector<AdapterPart> parts;
    std::vector<Tensor> magnitudes;
    for (const auto& [layer, begin] : matrix.layers) {
      const Projection& p = *layer.layer;
      if (!p.has_adapter()) continue;
      const Tensor b = kind.to_file(layer.name, p.lora_b.detach().to(kCPU, f32));
      parts.push_back({p.lora_a.detach().to(kCPU, f32), b, p.lora_scale, begin});
      if (!p.lora_magnitude.defined()) continue;
      magnitudes.push_back(kind.to_file(layer.name, p.lora_magnitude.detach().to(kCPU, f32).unsqueeze(-1)));
    }
    if (parts.empty()) continue;
    // One number is for all adapters; the factors of others are in their values.
    if (tensors.empty()) {
      const auto rank = static_cast<double>(parts[0].a.size(0));
      peft.alpha = parts[0].scale == 0 ? rank : parts[0].scale * rank;
    }
    const auto [a, b] = packed_adapter(parts, matrix.rows, peft.alpha);
    tensors.emplace_back(kind.name_of(matrix.name, 'a'), a);
    tensors.emplace_back(kind.name_of(matrix.name, 'b'), b);
    if (!magnitudes.empty()) {
      check_magnitudes(path, kind.gguf(), magnitudes.size() == matrix.layers.size());
      tensors.emplace_back(kind.magnitudes_name(matrix.name), cat(magnitudes).squeeze(-1).contiguous());
      peft.magnitudes = true;
    }
    peft.targets.insert(kind.target_of(matrix.name));
    peft.rank_of_module[kind.module_of(matrix.name)] = a.size(0);
  }
  if (tensors.empty()) throw FormatError(fmt::format("{}: the decoder has no adapters to write", path.string()));
  if (!kind.gguf()) {
    save_safetensors(path, tensors, {{"format", "pt"}});
    write_peft_config(fs::path(path).parent_path() / "adapter_config.json", peft);
    return;
  }
  save_gguf(path, tensors,
            {.metadata = {{"general.type", std::string("adapter")},
                          {"general.architecture", decoder.config.architecture},
                          {"adapter.type", std::string("lora")},
                          {"adapter.lora.alpha", static_cast<float>(peft.alpha)}}});
}

void load_adapters(const FilePath& path, Decoder& decoder) {
  decoder.require_whole("load_adapters");
  const std::vector<FoundAdapter> found = find_adapters(path, decoder);
  for (const NamedProjection& own : adapter_file_layers_of(decoder)) {
    if (own.layer->has_adapter())
      throw FormatError(fmt::format("{}: the model has adapters already; merge them first", path.string()));
  }
  decoder.requires_grad_(false);
  for (const FoundAdapter& f : found) {
    f.layer->set_adapter(f.a, f.b, f.scale);
    if (f.magnitudes.defined()) f.layer->set_magnitudes(f.magnitudes);
  }
}

std::int64_t stack_adapters(const FilePath& path, Decoder& decoder) {
  decoder.require_whole("stack_adapters");
  const std::vector<FoundAdapter> found = find_adapters(path, decoder);
  if (found[0].magnitudes.defined())
    throw FormatError(
        fmt::format("{}: adapters with magnitudes (DoRA) cannot be stacked; load them alone, or merge "
                    "them",
                    path.string()));
  for (const FoundAdapter& f : found) f.layer->stack_adapter(decoder.stacked_adapters, f.a, f.b, f.scale);
  return decoder.stacked_adapters++;
}

}  // namespace etna::models
