#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/architecture_rows.h>
#include <etna/models/internal/config_fields.h>
#include <etna/models/internal/config_parts.h>

// What config.json says of families with parts that few have, layer by layer.
namespace etna::models {
namespace {

/// A list with a number for each layer, or nothing. @throws FormatError for a list of another length
const Json* list_of_layers(const Json& json, const char* key, const DecoderConfig& c) {
  const Json* list = field(json, key);
  if (list == nullptr || !list->is_array()) return nullptr;
  if (std::ssize(*list) != c.layers)
    throw FormatError(fmt::format("'{}' has {} entries for {} layers", key, list->size(), c.layers));
  const auto is_number = [](const Json& one) { return one.is_number() || one.is_boolean(); };
  if (!std::all_of(list->begin(), list->end(), is_number))
    throw FormatError(fmt::format("'{}' holds something else than numbers", key));
  return list;
}

double number_at(const Json& list, std::int64_t index) {
  const Json& one = list.at(static_cast<std::size_t>(index));
  return one.is_boolean() ? (one.get<bool>() ? 1 : 0) : one.get<double>();
}

void read_layer_inputs(const Json& json, DecoderConfig& c) {
  c.layer_inputs.size = read<std::int64_t>(json, "hidden_size_per_layer_input", 256);
  if (field(json, "hidden_size_per_layer_input") == nullptr && json.contains("hidden_size_per_layer_input"))
    c.layer_inputs.size = 0;
  c.layer_inputs.vocabulary =
      c.layer_inputs.size == 0 ? 0 : read<std::int64_t>(json, "vocab_size_per_layer_input", 262144);
}

/// The sizes of one layer that 'per_layer_config' says: an object by the layer's number or kind.
void read_layer_sizes(const Json& sizes, LayerConfig& layer) {
  if (!sizes.is_object()) throw FormatError("'per_layer_config' holds something else than objects");
  layer.head_size = if_given(sizes, "head_dim", layer.head_size);
  layer.kv_heads = if_given(sizes, "num_key_value_heads", layer.kv_heads);
}

/// Sizes of layers that see all positions, or of those that are named.
void read_sizes_by_layer(const Json& json, const DecoderConfig& c, std::vector<LayerConfig>& layers) {
  const bool same = read(json, "attention_k_eq_v", false);
  const Json* each = field(json, "per_layer_config");
  if (each != nullptr && !each->is_object()) throw FormatError("'per_layer_config' is no object");
  for (std::int64_t i = 0; i < std::ssize(layers); ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    layer.keys_are_values = same && layer.window == 0;
    if (each == nullptr && layer.window == 0) {
      layer.head_size = if_given(json, "global_head_dim", 512);
      if (same) layer.kv_heads = if_given(json, "num_global_key_value_heads", 0);
    } else if (each != nullptr) {
      const Json* kind = field(*each, layer.window > 0 ? "sliding_attention" : "full_attention");
      const Json* own = field(*each, std::to_string(i).c_str());
      if (kind != nullptr) read_layer_sizes(*kind, layer);
      if (own != nullptr) read_layer_sizes(*own, layer);
    }
    layer.rope_size = layer.head_size > 0 ? layer.head_size : c.head_size;
  }
  if (each == nullptr) return;
  for (const auto& [key, sizes] : each->items()) {
    if (key == "full_attention" || key == "sliding_attention") continue;
    const bool number = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!number || std::stoll(key) >= std::ssize(layers))
      throw FormatError(fmt::format("'per_layer_config' describes layer '{}' of {}", key, layers.size()));
  }
}

}  // namespace

void read_gpt_oss(const Json& json, DecoderConfig& c) {
  c.experts.limit = read(json, "swiglu_limit", c.experts.limit);
  c.experts.chosen = read<std::int64_t>(json, "experts_per_token", c.experts.chosen);
}

void read_llama4(const Json& json, DecoderConfig& c) {
  c.query_key_norm = false;
  c.plain_query_key_norm = read(json, "use_qk_norm", true);
  c.experts.shared = c.experts.feed_forward;
  c.feed_forward = if_given(json, "intermediate_size_mlp", c.feed_forward);
  c.experts.chosen = read<std::int64_t>(json, "num_experts_per_tok", 1);
  const Json* tuning = field(json, "attn_temperature_tuning");
  const bool tempered = tuning == nullptr || (tuning->is_boolean() ? tuning->get<bool>() : *tuning != 0);
  if (tempered)
    c.temperature = {.scale = read(json, "attn_scale", 0.1), .floor = if_given(json, "floor_scale", 8192), .offset = 1};
  std::vector<LayerConfig> layers = layers_of(c);
  const Json* rotated = list_of_layers(json, "no_rope_layers", c);
  const Json* types = field(json, "layer_types");
  const std::int64_t chunk = if_given(json, "attention_chunk_size", 8192),
                     every = if_given(json, "no_rope_layer_interval", 4),
                     step = if_given(json, "interleave_moe_layer_step", 1);
  const Json* mixtures = field(json, "moe_layers");
  if (types != nullptr && (!types->is_array() || std::ssize(*types) != c.layers))
    throw FormatError(fmt::format("'layer_types' has {} entries for {} layers", types->size(), c.layers));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    layer.rotary = rotated != nullptr ? number_at(*rotated, i) != 0 : (i + 1) % every != 0;
    layer.temperature = tempered && !layer.rotary;
    const bool chunked =
        types == nullptr ? layer.rotary : types->at(static_cast<std::size_t>(i)) == "chunked_attention";
    layer.chunk = chunked ? chunk : 0;
    layer.experts = c.experts.count > 0 && (mixtures != nullptr && mixtures->is_array()
                                                ? std::find(mixtures->begin(), mixtures->end(), i) != mixtures->end()
                                                : (i + 1) % step == 0);
  }
  c.each_layer = std::move(layers);
}

void read_gemma3n(const Json& json, DecoderConfig& c) {
  read_layer_inputs(json, c);
  c.laurel_rank = read<std::int64_t>(json, "laurel_rank", 64);
  c.streams = {.count = read<std::int64_t>(json, "altup_num_inputs", 4),
               .active = read<std::int64_t>(json, "altup_active_idx", 0),
               .scales_active = read(json, "altup_correct_scale", true),
               .coefficient_limit = json.contains("altup_coef_clip") ? read(json, "altup_coef_clip", 0.0) : 120};
  std::vector<LayerConfig> layers = layers_of(c);
  const Json* columns = list_of_layers(json, "intermediate_size", c);
  const Json* sparsity = list_of_layers(json, "activation_sparsity_pattern", c);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    if (columns != nullptr) {
      const double size = number_at(*columns, i);
      if (!(size >= 1 && size <= 1 << 22))
        throw FormatError(fmt::format("'intermediate_size' of layer {} is {}; it must be above 0", i, size));
      layer.feed_forward = static_cast<std::int64_t>(size);
    }
    // Published files leave out the pattern of these models.
    layer.sparsity = sparsity != nullptr ? number_at(*sparsity, i) : c.layers > 10 && i < 10 ? 0.95 : 0;
  }
  if (columns != nullptr) c.feed_forward = layers[0].feed_forward;
  share_keys(layers, read<std::int64_t>(json, "num_kv_shared_layers", 0));
  c.each_layer = std::move(layers);
}

void read_gemma4(const Json& json, DecoderConfig& c) {
  read_layer_inputs(json, c);
  if (read<std::string>(json, "use_bidirectional_attention", "") == "all")
    throw FormatError("attention to later positions ('use_bidirectional_attention' is 'all') does not run here");
  std::vector<LayerConfig> layers = layers_of(c);
  layers.back().window = 0;  // whatever the file says
  read_sizes_by_layer(json, c, layers);
  share_keys(layers, read<std::int64_t>(json, "num_kv_shared_layers", 0));
  for (LayerConfig& layer : layers) {
    if (layer.shares < 0) continue;
    layer.keys_are_values = false;
    if (read(json, "use_double_wide_mlp", false)) layer.feed_forward = 2 * c.feed_forward;
  }
  if (read(json, "enable_moe_block", false)) {
    c.experts.count = required(json, "num_experts");
    c.experts.chosen = required(json, "top_k_experts");
    c.experts.feed_forward = required(json, "moe_intermediate_size");
    c.experts.normalized = c.experts.beside_dense = true;
    for (LayerConfig& layer : layers) layer.experts = true;
  }
  c.each_layer = std::move(layers);
}

void read_places(const Json& json, DecoderConfig& c) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = field(json, name);
    const Json* sections = rope != nullptr ? field(*rope, "mrope_section") : nullptr;
    if (sections == nullptr) continue;
    const bool numbers =
        sections->is_array() && sections->size() == 3 &&
        std::all_of(sections->begin(), sections->end(), [](auto& one) { return one.is_number_integer(); });
    if (!numbers) throw FormatError(fmt::format("'mrope_section' of {} is no list of three whole numbers", name));
    c.rope.pairs_by_place = {sections->at(1).get<std::int64_t>(), sections->at(2).get<std::int64_t>()};
    return;
  }
}

}  // namespace etna::models
