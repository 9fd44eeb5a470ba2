#include <etna/models/model_file.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/head_order.h>
#include <etna/models/internal/packed_adapter.h>
#include <etna/models/internal/parameter_adapter.h>
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
    for (const NamedProjection& own : decoder.blocks[i].adapter_layers())
      list.push_back({fmt::format("blocks.{}.{}", i, own.name), own.layer});
  }
  return list;
}

/// Where a file has a layer's adapter, or that of one of its experts.
struct AdapterPlace {
  std::string matrix;
  std::vector<RowRange> rows;  ///< of that matrix
  std::int64_t expert = -1;    ///< -1: all of the layer
  bool all_experts = false;    ///< the matrix is a parameter that holds those of all experts
};

/// The two kinds of files, and where they have a layer's adapter.
class FileKind {
 public:
  FileKind(bool gguf, const DecoderConfig& config)
      : gguf_(gguf), config_(gguf ? gguf_config(config) : config), architecture_(architecture_of(config_)) {}

  bool gguf() const { return gguf_; }
  /// The places of a layer's matrix in the model's file, which may have several in one, and one for each expert.
  /// Nothing where such files have no words for its adapter.
  /// @param has true for a matrix that has an adapter of its own
  std::vector<AdapterPlace> places_of(const NamedProjection& layer, const HasTensor& has) const {
    if (!gguf_ && architecture_.qkv_by_head)
      throw FormatError(
          "adapters of matrices that hold a query, key and value for each head are read from and written "
          "to GGUF files only");
    const StoredWeights::Locate locate =
        gguf_ ? gguf_places(config_, has) : hugging_face_places(config_, std::string(architecture_.prefix), has);
    const StoredPlaces found = locate(layer.name + ".weight");
    const auto rows_of = [&](const StoredPlace& place) {
      return RowRange{place.begin, place.rows == 0 ? layer.layer->out : place.rows};
    };
    std::vector<AdapterPlace> places;
    if (!is_expert_matrix(config_, layer.name + ".weight")) {
      places.push_back({found.front().name, {}});
      for (const StoredPlace& place : found) {
        if (place.name != found.front().name) return {};
        places.front().rows.push_back(rows_of(place));
      }
    } else if (gguf_) {
      places.push_back({found.front().name, {{0, layer.layer->out}}});
    } else if (found.front().packed > 0 && std::ssize(found) == layer.layer->experts) {
      places.push_back({found.front().name, {}, -1, true});
      for (const StoredPlace& place : found) places.front().rows.push_back(rows_of(place));
    } else if (std::ssize(found) == layer.layer->experts && (found.size() == 1 || found[0].name != found[1].name)) {
      for (std::size_t e = 0; e < found.size(); ++e)
        places.push_back({found[e].name, {rows_of(found[e])}, static_cast<std::int64_t>(e)});
    }
    return places;
  }
  /// Whether files that are written have a matrix for itself.
  bool writes_alone(const std::string& matrix) const {
    if (!matrix.ends_with(".weight")) return false;  // one matrix of all experts
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
    constexpr std::string_view kWeight = ".weight";
    return matrix.substr(0, matrix.size() - (matrix.ends_with(kWeight) ? kWeight.size() : 0));
  }
  const ExpertRules& expert_rules() const { return architecture_.experts; }
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
    return ordered(rows, gguf_);
  }
  Tensor from_file(const std::string& layer, const Tensor& rows) const {
    if (!turns(layer)) return rows;
    return ordered(rows, !gguf_);
  }

 private:
  bool turns(const std::string& layer) const {
    const bool rotated = layer.ends_with(".query") || layer.ends_with(".key");
    return rotated && architecture_.neighbours_in_gguf && config_.rope.interleaved != gguf_;
  }

  Tensor ordered(const Tensor& rows, bool neighbours) const {
    const std::int64_t head = config_.head_size, turned = config_.rope.size;
    return neighbours ? with_neighbours(rows, head, turned) : with_halves(rows, head, turned);
  }

  bool gguf_;
  const DecoderConfig config_;
  const Architecture& architecture_;
};

/// A layer of the decoder in a file, or one of its experts.
struct FileLayer {
  std::string name;
  Projection* layer;
  std::vector<RowRange> rows;
  std::int64_t expert;  ///< -1: all of the layer

  std::int64_t out() const { return expert < 0 ? layer->out : layer->out / layer->experts; }
};

/// A matrix of a model's file: the decoder's layers that have their rows in it.
struct FileMatrix {
  std::string name;
  std::vector<FileLayer> layers;
  std::int64_t rows = 0;
  bool all_experts = false;  ///< as AdapterPlace::all_experts

  ExpertParameter parameter(const FileKind& kind) const {
    const Projection& layer = *layers[0].layer;
    return expert_parameter(kind.expert_rules(), name, layer.experts, rows / layer.experts, layer.in);
  }
};

/// @param needed whether a layer must be in files @throws FormatError where they have no words for it then
std::vector<FileMatrix> matrices_of(Decoder& decoder, const FileKind& kind, const HasTensor& has,
                                    const std::function<bool(const Projection&)>& needed) {
  std::vector<FileMatrix> list;
  std::map<std::string, std::size_t> known;
  for (const NamedProjection& layer : adapter_file_layers_of(decoder)) {
    const std::vector<AdapterPlace> places = kind.places_of(layer, has);
    if (places.empty() && needed(*layer.layer)) {
      throw FormatError(
          fmt::format("files of Hugging Face have the rows of '{}' in several tensors, and adapters of such are "
                      "neither read nor written; write GGUF, or merge them",
                      layer.name));
    }
    for (const AdapterPlace& place : places) {
      const auto [at, is_new] = known.try_emplace(place.matrix, list.size());
      if (is_new) list.push_back({place.matrix, {}, 0, place.all_experts});
      FileMatrix& matrix = list[at->second];
      matrix.layers.push_back({layer.name, layer.layer, place.rows, place.expert});
      for (const RowRange& rows : place.rows) matrix.rows = std::max(matrix.rows, rows.begin + rows.rows);
    }
  }
  return list;
}

/// @param chosen whether one is wanted, by its layers
std::vector<ExpertParameter> parameters_of(
    const std::vector<FileMatrix>& matrices, const FileKind& kind,
    const std::function<bool(const Projection&)>& chosen = [](const Projection&) { return true; }) {
  std::vector<ExpertParameter> list;
  for (const FileMatrix& matrix : matrices)
    if (matrix.all_experts && std::any_of(matrix.layers.begin(), matrix.layers.end(),
                                          [&](const FileLayer& layer) { return chosen(*layer.layer); }))
      list.push_back(matrix.parameter(kind));
  return list;
}

/// What a file says: values in f32 by name, and the factor of all adapters times their rank.
struct AdapterFile {
  std::map<std::string, Tensor> tensors;
  double alpha = 0;                   ///< 0: the factor is 1
  std::set<std::int64_t> ranks = {};  ///< empty: any
  bool magnitudes = false;            ///< each adapter has some
  bool takes_last = false;            ///< PeftConfig::version is a parameter version
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
  read.takes_last = is_parameter_version(config_file.version);
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

/// The experts of a layer, together. Those that are not in the file have none: their B is 0.
FoundAdapter adapter_of_experts(const FilePath& path, const std::map<std::int64_t, FoundAdapter>& parts) {
  const FoundAdapter& first = parts.begin()->second;
  Projection& layer = *first.layer;
  std::vector<Tensor> a, b, magnitudes;
  for (std::int64_t e = 0; e < layer.experts; ++e) {
    const auto found = parts.find(e);
    const FoundAdapter& own = found == parts.end() ? first : found->second;
    if (own.a.shape() != first.a.shape() || (own.magnitudes.defined() && std::ssize(parts) < layer.experts))
      throw FormatError(
          fmt::format("{}: adapters of one layer's experts have ranks {} and {}, or magnitudes for some; "
                      "wanted the same for all",
                      path.string(), first.a.size(0), own.a.size(0)));
    a.push_back(own.a);
    b.push_back(found == parts.end() ? zeros_like(own.b) : own.b);
    if (own.magnitudes.defined()) magnitudes.push_back(own.magnitudes);
  }
  return {&layer, cat(a), cat(b), first.scale, magnitudes.empty() ? Tensor() : cat(magnitudes)};
}

/// The halves of an adapter as matrices. Files of GGUF have those of experts as [experts, rank, in], [experts, out,
/// rank].
Tensor as_matrix(const Tensor& half, const FileLayer& layer) {
  const bool stacked =
      layer.expert < 0 && layer.layer->experts > 1 && half.dim() == 3 && half.size(0) == layer.layer->experts;
  return stacked ? half.reshape({half.size(0) * half.size(1), half.size(2)}) : half;
}

/// Reads a file and checks that it fits.
std::vector<FoundAdapter> find_adapters(const FilePath& path, Decoder& decoder) {
  const FileKind kind(is_gguf(path), decoder.config);
  AdapterFile file = kind.gguf() ? read_gguf(path) : read_peft(path, decoder.config);
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (!std::isfinite(file.alpha)) refuse("the adapters' factor (alpha) is no finite number");
  std::vector<FoundAdapter> found;
  std::map<Projection*, std::map<std::int64_t, FoundAdapter>> of_experts;
  std::set<std::string> known;
  const auto alone = [&](const std::string& matrix) {
    return file.tensors.contains(kind.name_of(matrix, 'a')) ||
           (!matrix.ends_with(".weight") && has_parameter(file.tensors, matrix));
  };
  const std::vector<FileMatrix> matrices = matrices_of(decoder, kind, alone, [](const Projection&) { return false; });
  name_parameters(path.string(), file.tensors, parameters_of(matrices, kind), file.takes_last,
                  [&](const std::string& matrix, char which) { return kind.name_of(matrix, which); });
  for (const FileMatrix& matrix : matrices) {
    const auto a = file.tensors.find(kind.name_of(matrix.name, 'a')),
               b = file.tensors.find(kind.name_of(matrix.name, 'b'));
    if (a == file.tensors.end() && b == file.tensors.end()) continue;
    // A gated layer whose gate has no adapter is not packed, whatever the names say.
    auto layers = matrix.layers;
    std::int64_t rows = matrix.rows;
    if (layers.size() == 2 && layers[0].name.ends_with(".gate") && layers[1].name.ends_with(".up") &&
        b != file.tensors.end() && b->second.dim() == 2 && b->second.size(0) == layers[1].out()) {
      rows = layers[1].out();
      layers = {layers[1]};
      layers[0].rows = {{0, rows}};
    }
    const std::string& name = layers[0].name;
    if (a == file.tensors.end() || b == file.tensors.end())
      refuse(fmt::format("of the adapter of {} only one half is there", name));
    const Tensor down = as_matrix(a->second, layers[0]), up = as_matrix(b->second, layers[0]);
    const std::int64_t in = layers[0].layer->in, count = layers[0].expert < 0 ? layers[0].layer->experts : 1;
    const bool fits = down.dim() == 2 && up.dim() == 2 && down.size(0) > 0 && down.size(0) == count * up.size(1) &&
                      down.size(1) == in && up.size(0) == rows;
    if (!fits) {
      refuse(fmt::format("the adapter of {} is {} and {}; wanted [{}rank, {}] and [{}, rank]", name, str(down.shape()),
                         str(up.shape()), count > 1 ? fmt::format("{} · ", count) : "", in, rows));
    }
    const std::int64_t rank = up.size(1);
    if (!file.ranks.empty() && !file.ranks.contains(rank))
      refuse(fmt::format("the adapter of {} has rank {}, and adapter_config.json says {}", name, rank,
                         fmt::join(file.ranks, ", ")));
    Tensor magnitudes;
    if (file.magnitudes) {
      magnitudes = magnitudes_in(path, file, kind.magnitudes_name(matrix.name), rows);
      known.insert(kind.magnitudes_name(matrix.name));
    }
    for (const FileLayer& layer : layers) {
      const auto own_rows = [&](const Tensor& all) {
        std::vector<Tensor> own;
        for (const RowRange& place : layer.rows) own.push_back(all.slice(0, place.begin, place.begin + place.rows));
        return kind.from_file(layer.name, own.size() == 1 ? own[0].clone() : cat(own));
      };
      const double scale = file.alpha == 0 ? 1 : file.alpha / static_cast<double>(rank);
      FoundAdapter adapter{layer.layer, down.clone(), own_rows(up), scale};
      if (magnitudes.defined()) adapter.magnitudes = own_rows(magnitudes).squeeze(-1);
      if (layer.expert < 0)
        found.push_back(adapter);
      else
        of_experts[layer.layer].emplace(layer.expert, adapter);
    }
    known.insert({a->first, b->first});
  }
  for (const auto& [layer, parts] : of_experts) found.push_back(adapter_of_experts(path, parts));
  for (const auto& [name, tensor] : file.tensors)
    if (!known.contains(name)) refuse(fmt::format("'{}' belongs to no layer of the model", name));
  if (found.empty()) refuse("there are no adapters in it");
  return found;
}

/// The part of an expert of what all have one below the other, or all of it.
Tensor part_of_expert(const Tensor& all, const FileLayer& layer) {
  if (layer.expert < 0) return all;
  const std::int64_t rows = all.size(0) / layer.layer->experts;
  return all.slice(0, layer.expert * rows, (layer.expert + 1) * rows);
}

bool is_adapted(const Projection& layer) { return layer.has_adapter(); }

/// The matrices of a file with a decoder's adapters.
std::vector<FileMatrix> adapted_matrices(const Decoder& decoder, const FileKind& kind) {
  const auto alone = [&](const std::string& matrix) { return kind.writes_alone(matrix); };
  return matrices_of(const_cast<Decoder&>(decoder), kind, alone, is_adapted);
}

}  // namespace

void check_peft_adapters(const Decoder& decoder) {
  for (const FileMatrix& matrix : adapted_matrices(decoder, FileKind(false, decoder.config)))
    for (const FileLayer& layer : matrix.layers)
      if (matrix.all_experts && layer.layer->lora_magnitude.defined())
        throw FormatError(
            "PEFT has no adapters with magnitudes (DoRA) for experts that are one tensor; leave experts out, or train "
            "adapters without magnitudes");
}

void save_adapters(const FilePath& path, const Decoder& decoder) {
  decoder.require_whole("save_adapters");
  const FileKind kind(is_gguf(path), decoder.config);
  NamedTensors tensors;
  PeftConfig peft{.in_by_out = architecture_of(decoder.config).in_by_out};
  const std::vector<FileMatrix> matrices = adapted_matrices(decoder, kind);
  if (!kind.gguf()) check_peft_adapters(decoder);
  for (const FileMatrix& matrix : matrices) {
    std::vector<AdapterPart> parts;
    std::int64_t experts = 1, adapted_rows = 0;
    Tensor magnitudes;
    for (const FileLayer& layer : matrix.layers) {
      const Projection& p = *layer.layer;
      if (!p.has_adapter()) continue;
      const auto own = [&](const Tensor& all) { return part_of_expert(all.detach().to(kCPU, f32), layer); };
      parts.push_back({own(p.lora_a), kind.to_file(layer.name, own(p.lora_b)), p.lora_scale, layer.rows});
      if (layer.expert < 0) experts = p.experts;
      if (!p.lora_magnitude.defined()) continue;
      if (!magnitudes.defined()) magnitudes = zeros({matrix.rows});
      const Tensor values = kind.to_file(layer.name, own(p.lora_magnitude).unsqueeze(-1)).squeeze(-1);
      std::int64_t at = 0;
      for (const RowRange& place : layer.rows) {
        magnitudes.slice(0, place.begin, place.begin + place.rows).copy_(values.slice(0, at, at + place.rows));
        at += place.rows;
      }
      adapted_rows += at;
    }
    if (parts.empty()) continue;
    // One number is for all adapters; the factors of others are in their values.
    if (tensors.empty()) {
      const auto rank = static_cast<double>(parts[0].b.size(1));
      peft.alpha = parts[0].scale == 0 ? rank : parts[0].scale * rank;
    }
    const auto [a, b] = packed_adapter(parts, matrix.rows, peft.alpha);
    if (matrix.all_experts) {
      const ExpertParameter parameter = matrix.parameter(kind);
      const ExpertHalves halves = to_peft(parameter, by_expert(parameter, {a, b}, parts));
      const bool inner = is_inner(parameters_of(matrices, kind, is_adapted), parameter);
      tensors.emplace_back(parameter_key(parameter, inner, 'a'), halves.a);
      tensors.emplace_back(parameter_key(parameter, inner, 'b'), halves.b);
      peft.parameters.insert(parameter.target());
      peft.rank_of_module[matrix.name] = b.size(1);
      continue;
    }
    const auto in_file = [&](const Tensor& half) {
      return experts == 1 ? half : half.reshape({experts, half.size(0) / experts, half.size(1)});
    };
    tensors.emplace_back(kind.name_of(matrix.name, 'a'), in_file(a));
    tensors.emplace_back(kind.name_of(matrix.name, 'b'), in_file(b));
    if (magnitudes.defined()) {
      check_magnitudes(path, kind.gguf(), adapted_rows == matrix.rows);
      tensors.emplace_back(kind.magnitudes_name(matrix.name), magnitudes);
      peft.magnitudes = true;
    }
    peft.targets.insert(kind.target_of(matrix.name));
    peft.rank_of_module[kind.module_of(matrix.name)] = b.size(1);
  }
  if (tensors.empty()) throw FormatError(fmt::format("{}: the decoder has no adapters to write", path.string()));
  if (!kind.gguf()) {
    save_safetensors(path, tensors, {{"format", "pt"}});
    write_peft_config(fs::path(path).parent_path() / "adapter_config.json", peft);
    return;
  }
  save_gguf(path, tensors,
            {.metadata = {{"general.type", std::string("adapter")},
                          {"general.architecture", gguf_config(decoder.config).architecture},
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
  for (const FoundAdapter& f : found) {
    if (f.layer->experts > 1)
      throw FormatError(
          fmt::format("{}: adapters of experts cannot be stacked; load them alone, or merge them", path.string()));
  }
  for (const FoundAdapter& f : found) f.layer->stack_adapter(decoder.stacked_adapters, f.a, f.b, f.scale);
  return decoder.stacked_adapters++;
}

}  // namespace etna::models
