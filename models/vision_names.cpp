#include <etna/models/internal/vision_names.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/vision_family.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

constexpr std::string_view kTowers[] = {"vision_tower.vision_model.",
                                        "model.vision_tower.vision_model.",
                                        "vision_tower.",
                                        "model.vision_tower.",
                                        "model.vision_model.",
                                        "vision_model.",
                                        "model.visual.",
                                        "visual."};
constexpr std::string_view kProjectors[] = {"multi_modal_projector.", "model.multi_modal_projector.",
                                            "model.connector.", "connector."};

constexpr std::pair<std::string_view, std::string_view> kSiglip[] = {
    {"patch_embedding", "embeddings.patch_embedding"},
    {"position_embedding", "embeddings.position_embedding"},
    {"attention_norm", "layer_norm1"},
    {"query", "self_attn.q_proj"},
    {"key", "self_attn.k_proj"},
    {"value", "self_attn.v_proj"},
    {"output", "self_attn.out_proj"},
    {"ffn_norm", "layer_norm2"},
    {"ffn.up", "mlp.fc1"},
    {"ffn.down", "mlp.fc2"},
    {"norm", "post_layernorm"}};
constexpr std::pair<std::string_view, std::string_view> kVisionGguf[] = {{"patch_embedding", "v.patch_embd"},
                                                                         {"position_embedding", "v.position_embd"},
                                                                         {"attention_norm", "ln1"},
                                                                         {"qkv", "attn_qkv"},
                                                                         {"query", "attn_q"},
                                                                         {"key", "attn_k"},
                                                                         {"value", "attn_v"},
                                                                         {"output", "attn_out"},
                                                                         {"ffn_norm", "ln2"},
                                                                         {"ffn.up", "ffn_up"},
                                                                         {"ffn.down", "ffn_down"},
                                                                         {"norm", "v.post_ln"},
                                                                         {"deep.norm", "norm"},
                                                                         {"deep.first", "fc1"},
                                                                         {"deep.last", "fc2"}};

std::string vision_part(PartNames most, PartNames own, const std::string& part) {
  std::string name = part;
  for (const PartNames names : {most, own})
    for (const auto& [ours, theirs] : names)
      if (ours == part) name = theirs;
  return name;
}

/// "deep.1.first" as the number 1 and "first"; -1 for another part.
std::pair<std::int64_t, std::string> deep_part(const std::string& part) {
  constexpr std::string_view kDeep = "deep.";
  if (!part.starts_with(kDeep)) return {-1, part};
  const std::size_t dot = part.find('.', kDeep.size());
  return {std::stoll(part.substr(kDeep.size(), dot - kDeep.size())), part.substr(dot + 1)};
}

/// Of the matrix behind the norm of Gemma's projector, which is [in, out].
StoredPlaces projector_place(const VisionConfig& config, const std::string& part, std::string name) {
  return {{std::move(name), 0, config.merges == PatchMerge::average && part == "projector.last"}};
}

/// The first of some prefixes with which a file has a tensor. @param ends of its name
std::string prefix_with(std::span<const std::string_view> prefixes, std::initializer_list<std::string> ends,
                        const HasTensor& has) {
  for (const std::string_view prefix : prefixes)
    for (const std::string& end : ends)
      if (has(std::string(prefix) + end)) return std::string(prefix);
  return std::string(prefixes[0]);
}

Tensor decoded(const StoredTensor& stored) {
  Tensor values = empty(stored.shape);
  quant::dequantize(*stored.format, stored.span(), values.mutable_data<float>(), values.numel());
  return values;
}

StoredTensor owned_values(const Tensor& values) {
  return {&quant::format_named("F32"), values.shape(), {}, values.contiguous()};
}

}  // namespace

StoredWeights::Locate vision_places(const VisionConfig& config, const HasTensor& has) {
  const VisionFamily& family = family_of(config);
  const auto named = [&family](const std::string& part) { return vision_part(kSiglip, family.names, part); };
  const bool merger = config.merges == PatchMerge::layers;
  const std::string tower = prefix_with(kTowers, {named("patch_embedding") + ".weight"}, has);
  const std::string last = named("projector.last");
  const std::string projector = merger ? tower + "merger." : prefix_with(kProjectors, {last, last + ".weight"}, has);
  const std::string blocks = merger ? "blocks" : "encoder.layers";
  return [&config, has, named, tower, projector, blocks](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const std::string block = parts.block.empty() ? tower : fmt::format("{}{}.{}.", tower, blocks, parts.block);
    const auto place = [&](const std::string& part) { return StoredPlace{block + named(part) + parts.kind}; };
    if (parts.part == "qkv") return encoder_qkv(config.blocks, has, place);
    if (const auto [number, part] = deep_part(parts.part); number >= 0)
      return {{fmt::format("{}deepstack_merger_list.{}.{}{}", tower, number, named("projector." + part), parts.kind)}};
    if (!parts.part.starts_with("projector.")) return {place(parts.part)};
    const std::string stem = projector + named(parts.part);
    return projector_place(config, parts.part, has(stem) ? stem : stem + parts.kind);
  };
}

StoredWeights::Locate gguf_vision_places(const VisionConfig& config, const HasTensor& has) {
  return [&config, has, &family = family_of(config)](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const auto named = [&](const std::string& part) { return vision_part(kVisionGguf, family.gguf_names, part); };
    const auto place = [&](const std::string& part) {
      return StoredPlace{(parts.block.empty() ? "" : fmt::format("v.blk.{}.", parts.block)) + named(part) + parts.kind};
    };
    if (parts.part == "qkv") return encoder_qkv(config.blocks, has, place);
    if (const auto [number, part] = deep_part(parts.part); number >= 0) {
      const std::int64_t block = config.deep_layers[static_cast<std::size_t>(number)];
      return {{fmt::format("v.deepstack.{}.{}{}", block, named("deep." + part), parts.kind)}};
    }
    return projector_place(config, parts.part, place(parts.part).name);
  };
}

StoredWeights::Find with_patch_matrices(std::string file, StoredWeights::Find find) {
  return [file = std::move(file), find = std::move(find)](const std::string& name) -> std::optional<StoredTensor> {
    std::optional<StoredTensor> found = find(name);
    if (!found || found->format == nullptr) return found;
    if (name.ends_with("mm_soft_emb_norm.weight")) return owned_values(decoded(*found) + 1.0);
    const Shape& shape = found->shape;
    if (shape.rank() == 5) {  // [out, channels, frames, height, width]
      const Tensor sum = decoded(*found).sum(2);
      return owned_values(sum.reshape({shape[0], -1}));
    }
    if (shape.rank() != 4) return found;
    if (const std::optional<StoredTensor> second = find(name + ".1")) {
      if (second->format == nullptr || second->shape != shape)
        throw FormatError(fmt::format("{}: tensor '{}.1' is not like '{}'", file, name, name));
      return owned_values((decoded(*found) + decoded(*second)).reshape({shape[0], -1}));
    }
    found->shape = {shape[0], shape[1] * shape[2] * shape[3]};
    return found;
  };
}

bool is_of_vision(const std::string& name) {
  const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::any_of(std::begin(kTowers), std::end(kTowers), starts) ||
         std::any_of(std::begin(kProjectors), std::end(kProjectors), starts);
}

}  // namespace etna::models
