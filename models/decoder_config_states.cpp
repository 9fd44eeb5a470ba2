#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/internal/config_fields.h>
#include <etna/models/internal/file_config.h>

// Layers that keep a state in a config.json.
namespace etna::models {
namespace {

std::string text(std::string_view key) { return std::string(key); }

std::int64_t state_size(const Json& json, std::string_view key) {
  return key.empty() ? 0 : required(json, text(key).c_str());
}

bool state_flag(const Json& json, std::string_view key, bool otherwise = false) {
  return !key.empty() && read(json, text(key).c_str(), otherwise);
}

/// A number; infinity may be spelled as an object or a string.
double finite(const Json& value, const char* key) {
  if (value.is_number()) return value.get<double>();
  const Json* spelled = value.is_object() ? field(value, "__float__") : &value;
  if (spelled != nullptr && *spelled == "Infinity") return 1e30;
  throw FormatError(fmt::format("'{}' has {}; wanted numbers", key, data::json_brief(value)));
}

/// The numbers of a list of a length. @return whether the file has it
template <std::size_t N>
bool read_list(const Json& json, const char* key, double (&to)[N]) {
  const Json* list = field(json, key);
  if (list == nullptr) return false;
  if (!list->is_array() || list->size() != N)
    throw FormatError(fmt::format("'{}' is {}; wanted a list of {} numbers", key, data::json_brief(*list), N));
  for (std::size_t i = 0; i < N; ++i) to[i] = finite((*list)[i], key);
  return true;
}

/// The list of the kinds of layers, under one of its names; null where there is none.
const Json* kinds_in(const Json& json) {
  for (const char* key : {"layer_types", "layers_block_type", "hybrid_override_pattern"}) {
    const Json* list = field(json, key);
    if (list == nullptr) continue;
    if (!list->is_array() && !list->is_string())
      throw FormatError(fmt::format("'{}' is {}; wanted a list", key, data::json_brief(*list)));
    return list;
  }
  return nullptr;
}

/// A layer by what a list calls its kind. @throws FormatError
LayerConfig layer_of_kind(const std::string& kind, const StateRules& rules) {
  LayerConfig layer;
  layer.has_feed_forward = !rules.single;
  if (kind == "full_attention" || kind == "attention" || kind == "*") return layer;
  layer.mixer = rules.mixer;
  for (const char* name : {"linear_attention", "mamba", "mamba2", "conv", "hybrid", "M"})
    if (kind == name) return layer;
  layer.mixer = MixerKind::none;
  layer.has_feed_forward = true;
  layer.experts = kind == "moe" || kind == "E";
  if (rules.single && (layer.experts || kind == "mlp" || kind == "-")) return layer;
  throw FormatError(
      fmt::format("a layer is of the kind '{}'; known are full_attention, linear_attention, mamba, conv, mlp and moe, "
                  "of which this family has some",
                  kind));
}

std::vector<LayerConfig> layers_in_list(const Json& list, const StateRules& rules) {
  std::vector<LayerConfig> layers;
  if (list.is_string()) {
    for (const char kind : list.get<std::string>()) layers.push_back(layer_of_kind(std::string(1, kind), rules));
    return layers;
  }
  for (const Json& kind : list) {
    if (!kind.is_string())
      throw FormatError(fmt::format("a layer is of the kind {}; wanted a string", data::json_brief(kind)));
    layers.push_back(layer_of_kind(kind.get<std::string>(), rules));
  }
  return layers;
}

/// Whether each layer has attention, by a list of those that do, or by their distance.
std::vector<bool> layers_with_attention(const Json& json, const StateRules& rules, std::int64_t count) {
  std::vector<bool> has(static_cast<std::size_t>(count), false);
  const std::string key = text(rules.attention_layers);
  if (const Json* list = key.empty() ? nullptr : field(json, key.c_str()); list != nullptr) {
    for (const Json& layer : list->is_array() ? *list : Json::array({*list})) {
      if (!layer.is_number_integer() || layer < 0 || layer >= count)
        throw FormatError(fmt::format("'{}' has {} for {} layers", key, data::json_brief(layer), count));
      has[layer.get<std::size_t>()] = true;
    }
    return has;
  }
  if (rules.interval == 0) return has;
  const std::int64_t interval = if_given(json, "full_attention_interval", rules.interval);
  for (std::int64_t i = interval - 1; i < count; i += interval) has[static_cast<std::size_t>(i)] = true;
  return has;
}

void read_layers(const Json& json, const StateRules& rules, DecoderConfig& c) {
  if (c.layers < 1 || c.layers > kMostLayers) return;  // which check() refuses
  std::vector<LayerConfig> layers;
  const Json* kinds = rules.mixer == MixerKind::attention_and_mamba || rules.no_attention ? nullptr : kinds_in(json);
  if (kinds != nullptr) {
    layers = layers_in_list(*kinds, rules);
    if (std::ssize(layers) != c.layers)
      throw FormatError(fmt::format("the kinds of {} layers are listed; the model has {}", layers.size(), c.layers));
  } else {
    for (const bool attends : layers_with_attention(json, rules, c.layers)) {
      LayerConfig& layer = layers.emplace_back();
      layer.mixer = attends ? MixerKind::attention : rules.mixer;
      layer.has_feed_forward = !rules.single;
    }
  }
  const bool rotary =
      rules.rotary && (!rules.asks_for_rotary || read<std::string>(json, "position_embedding_type", "") == "rope");
  for (LayerConfig& layer : layers) layer.rotary = rotary;
  c.each_layer = std::move(layers);
}

/// Elements of a head of values, which some files leave to the width.
std::int64_t value_size_in(const Json& json, const StateRules& rules, const DecoderConfig& c) {
  const std::string key = text(rules.value_size);
  const Json* given = field(json, key.c_str());
  if (given != nullptr && *given != "auto") return read<std::int64_t>(json, key.c_str(), 0);
  const std::int64_t expand = if_given(json, "mamba_expand", 2);
  return c.state.heads > 0 && c.width <= 1 << 20 && expand <= 1 << 10 ? expand * c.width / c.state.heads : 0;
}

/// Factors of Falcon-H1's parts.
void read_state_factors(const Json& json, DecoderConfig& c) {
  c.attention_input_scale = read(json, "attention_in_multiplier", 1.0);
  c.attention_output_scale = read(json, "attention_out_multiplier", 1.0);
  // Keys are multiplied, and so are scores.
  if (const double keys = read(json, "key_multiplier", 1.0); keys != 1) c.attention_scale = c.score_scale() * keys;
  c.state.input_scale = read(json, "ssm_in_multiplier", 1.0);
  c.state.output_scale = read(json, "ssm_out_multiplier", 1.0);
  read_list(json, "ssm_multipliers", c.state.part_scales);
  double of_layer[2] = {1, 1};
  if (read_list(json, "mlp_multipliers", of_layer)) {
    c.gate_scale = of_layer[0];
    c.down_scale = of_layer[1];
  }
}

/// The width that LFM2's files describe by a larger one.
void adjust_width(const Json& json, DecoderConfig& c) {
  if (c.feed_forward == 0) c.feed_forward = required(json, "block_ff_dim");
  // Not where there are experts.
  if (!read(json, "block_auto_adjust_ff_dim", !architecture_of(c).experts.there) || c.feed_forward < 1 ||
      c.feed_forward > 1 << 22)
    return;
  const std::int64_t multiple = if_given(json, "block_multiple_of", 256);
  const double factor = read(json, "block_ffn_dim_multiplier", 1.0);
  if (!(factor > 0 && factor < 1e3) || multiple > 1 << 20)
    throw FormatError(
        fmt::format("'block_ffn_dim_multiplier' is {} and 'block_multiple_of' {}; wanted less", factor, multiple));
  const auto width = static_cast<std::int64_t>(static_cast<double>(2 * c.feed_forward / 3) * factor);
  c.feed_forward = (width + multiple - 1) / multiple * multiple;
}

}  // namespace

void read_states(const Json& json, const StateRules& rules, DecoderConfig& c) {
  StateConfig& s = c.state;
  s.kernel = state_size(json, rules.kernel);
  s.heads = state_size(json, rules.heads);
  s.key_heads = state_size(json, rules.key_heads);
  s.key_size = state_size(json, rules.key_size);
  if (!rules.value_size.empty()) s.value_size = value_size_in(json, rules, c);
  s.kernel_bias = state_flag(json, rules.kernel_bias, rules.mixer != MixerKind::convolution);
  s.input_bias = state_flag(json, rules.input_bias);
  s.output_bias = state_flag(json, rules.output_bias);
  if (rules.mixer == MixerKind::convolution) {
    c.tied = read(json, "tie_embedding", c.tied);
    adjust_width(json, c);
  } else if (const auto name = read<std::string>(json, text(rules.activation).c_str(), "silu");
             read_activation(name) != Activation::silu) {
    throw FormatError(
        fmt::format("'{}' is '{}'; the convolution in front of a state has SiLU here", rules.activation, name));
  }
  if (rules.optional_norm) {
    s.norm = read(json, "mamba_rms_norm", false);
    s.norm_before_gate = read(json, "mamba_norm_before_gate", true);
  }
  if (rules.norms_groups) s.norm_groups = s.key_heads;
  double limits[2] = {s.least_step, s.largest_step};
  if (rules.mixer != MixerKind::delta && read_list(json, "time_step_limit", limits)) {
    s.least_step = limits[0];
    s.largest_step = std::min(limits[1], 1e30);
  }
  if (rules.least_step) s.least_step = std::max(s.least_step, read(json, "time_step_min", 0.001));
  read_state_factors(json, c);
  read_layers(json, rules, c);
}

std::int64_t listed_layers(const Json& json) {
  const Json* kinds = kinds_in(json);
  if (kinds == nullptr) throw FormatError("'num_hidden_layers' is missing, and so is a list of layers");
  return static_cast<std::int64_t>(kinds->is_string() ? kinds->get<std::string>().size() : kinds->size());
}

bool lists_experts(const DecoderConfig& c) {
  return std::any_of(c.each_layer.begin(), c.each_layer.end(), [](const LayerConfig& layer) { return layer.experts; });
}

std::string with_finite_numbers(std::string_view json) {
  constexpr std::string_view kInfinity = "Infinity";
  std::string finite;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!quoted && json.substr(i, kInfinity.size()) == kInfinity) {
      finite += "1e30";
      i += kInfinity.size() - 1;
      continue;
    }
    if (json[i] == '"') quoted = !quoted;
    finite += json[i];
    if (quoted && json[i] == '\\' && i + 1 < json.size()) finite += json[++i];
  }
  return finite;
}

}  // namespace etna::models
