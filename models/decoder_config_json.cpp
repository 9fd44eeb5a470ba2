#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/models/decoder_config.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/config_fields.h>
#include <etna/models/internal/encoder_family.h>
#include <etna/models/internal/file_config.h>

namespace etna::models {
namespace {

/// Activations that have other names in config.json; the first is the one that is written.
constexpr std::pair<Activation, std::string_view> kActivationNames[] = {
    {Activation::gelu_tanh, "gelu_new"},  {Activation::gelu_tanh, "gelu_pytorch_tanh"},
    {Activation::gelu_tanh, "gelu_fast"}, {Activation::relu_squared, "relu2"},
    {Activation::silu, "silu"},           {Activation::silu, "swish"}};

}  // namespace

Activation read_activation(std::string_view name) {
  for (const auto& [activation, theirs] : kActivationNames)
    if (name == theirs) return activation;
  const std::optional<Activation> found = activation_named(name);
  if (!found || *found == Activation::none)
    throw FormatError(fmt::format(
        "the activation '{}' is not known; wanted silu, gelu, gelu_new, relu2 or the name of another activation",
        name));
  return *found;
}

namespace {

std::string_view written_activation(Activation activation) {
  for (const auto& [known, theirs] : kActivationNames)
    if (activation == known) return theirs;
  return etna::name(activation);
}

std::vector<float> read_factors(const Json& scaling, const char* key) {
  const Json* factors = field(scaling, key);
  if (factors == nullptr || !factors->is_array())
    throw FormatError(fmt::format("'{}' of rope_scaling is no list", key));
  std::vector<float> list;
  for (const Json& factor : *factors) {
    if (!factor.is_number()) throw FormatError(fmt::format("'{}' of rope_scaling holds {}", key, factor.dump()));
    list.push_back(factor.get<float>());
  }
  return list;
}

void read_yarn(const Json& scaling, RopeConfig& rope) {
  rope.beta_fast = read(scaling, "beta_fast", rope.beta_fast);
  rope.beta_slow = read(scaling, "beta_slow", rope.beta_slow);
  rope.attention_factor = read(scaling, "attention_factor", 0.0);
  rope.whole_bounds = read(scaling, "truncate", true);
  // DeepSeek's files give the factor as a fraction.
  const double above = read(scaling, "mscale", 0.0), below = read(scaling, "mscale_all_dim", 0.0);
  const auto magnitude = [&](double scale) { return rope.factor > 1 ? 1 + 0.1 * scale * std::log(rope.factor) : 1; };
  if (rope.attention_factor == 0 && above > 0 && below > 0) rope.attention_factor = magnitude(above) / magnitude(below);
}

/// Scalings of rope by their `rope_type`; the first name of each is the one that is written.
constexpr std::pair<std::string_view, RopeScaling> kScalingNames[] = {
    {"linear", RopeScaling::linear},
    {"ntk", RopeScaling::ntk},
    {"yarn", RopeScaling::yarn},
    {"llama3", RopeScaling::llama3},
    {"longrope", RopeScaling::longrope},
    {"su", RopeScaling::longrope},
    {"default", RopeScaling::none},
    {"mrope", RopeScaling::none},
    {"proportional", RopeScaling::none},
    // The base grows with texts beyond the context. No text here is that long, and within it nothing is scaled.
    {"dynamic", RopeScaling::none}};

RopeScaling scaling_of(std::string_view type) {
  for (const auto& [name, scaling] : kScalingNames)
    if (name == type) return scaling;
  throw FormatError(
      fmt::format("the scaling of rope is '{}'; known are linear, ntk, dynamic, yarn, llama3 and longrope", type));
}

std::string_view written_scaling(RopeScaling scaling) {
  for (const auto& [name, known] : kScalingNames)
    if (known == scaling) return name;
  return "";
}

/// A scaling's factor; without one, yarn's is that of the contexts. @param context of the model
double read_factor(const Json& scaling, const RopeConfig& rope, std::int64_t context) {
  if (rope.scaling == RopeScaling::none) return 1;
  if (rope.scaling == RopeScaling::longrope || field(scaling, "factor") != nullptr) return read(scaling, "factor", 1.0);
  if (rope.scaling != RopeScaling::yarn || rope.original_context <= 0)
    throw FormatError(
        fmt::format("'factor' of rope_scaling is missing, which '{}' needs", written_scaling(rope.scaling)));
  return static_cast<double>(context) / static_cast<double>(rope.original_context);
}

RopeScaling scaling_in(const Json& scaling) {
  return scaling_of(read<std::string>(scaling, "rope_type", read<std::string>(scaling, "type", "default")));
}

void read_scaling(const Json& scaling, RopeConfig& rope, std::int64_t context) {
  rope.scaling = scaling_in(scaling);
  rope.original_context = read<std::int64_t>(scaling, "original_max_position_embeddings", rope.original_context);
  rope.factor = read_factor(scaling, rope, context);
  if (rope.scaling == RopeScaling::yarn) read_yarn(scaling, rope);
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_frequency_factor = read(scaling, "low_freq_factor", 1.0);
    rope.high_frequency_factor = read(scaling, "high_freq_factor", 4.0);
  }
  if (rope.scaling == RopeScaling::longrope) {
    rope.short_divisors = read_factors(scaling, "short_factor");
    rope.long_divisors = read_factors(scaling, "long_factor");
    rope.attention_factor = read(scaling, "attention_factor", 0.0);
  }
}

/// What a config.json calls what llama's calls `name`.
const char* key_of(const Architecture& architecture, const char* name) {
  for (const auto& [own, theirs] : architecture.keys)
    if (own == name) return theirs.data();
  return name;
}

void decoder_config_json_read_rope(const Json& json, const Architecture& a, DecoderConfig& c) {
  RopeConfig& rope = c.rope;
  // Hugging Face has no such field but that of DeepSeek-V3: its files of a family are all of one kind.
  rope.interleaved = read(json, a.latent ? "rope_interleave" : "rope_interleaved", a.neighbours_in_hugging_face);
  rope.base = read(json, key_of(a, "rope_theta"), rope.base);
  c.window_rope_base = read(json, "rope_local_base_freq", c.window_rope_base);
  double part = read(json, key_of(a, "partial_rotary_factor"), a.rotary_part);
  rope.original_context = read<std::int64_t>(json, "original_max_position_embeddings", 0);
  // Later files have one object for all of rope, Gemma 3's one for each kind of layer.
  const Json* scaling = field(json, "rope_parameters");
  if (scaling != nullptr && scaling->is_object()) {
    const Json* local = field(*scaling, "sliding_attention");
    if (local != nullptr && local->is_object()) {
      c.window_rope_base = read(*local, "rope_theta", c.window_rope_base);
      if (scaling_in(*local) != RopeScaling::none)
        throw FormatError(
            "a scaling of rope in layers with a window ('sliding_attention' of rope_parameters) does not "
            "run here");
    }
    const Json* full = field(*scaling, "full_attention");
    if (full != nullptr && full->is_object()) scaling = full;
    rope.base = read(*scaling, "rope_theta", rope.base);
    part = read(*scaling, "partial_rotary_factor", part);
    // All elements are in pairs, of which a part turns.
    const bool proportional = read<std::string>(*scaling, "rope_type", "") == "proportional";
    rope.turning = proportional ? std::exchange(part, 1) : 1;
  } else {
    scaling = field(json, "rope_scaling");
  }
  if (!(part > 0 && part <= 1))
    throw FormatError(fmt::format("'partial_rotary_factor' is {}; it must be above 0, and at most 1", part));
  if (c.latent.size == 0) rope.size = static_cast<std::int64_t>(static_cast<double>(c.head_size) * part) / 2 * 2;
  if (a.plain_window_rope && c.window > 0 && c.window_rope_base == 0) c.window_rope_base = rope.base;
  if (scaling == nullptr) return;
  if (!scaling->is_object()) throw FormatError("'rope_scaling' is no object");
  read_scaling(*scaling, rope, c.context);
  // DeepSeek's scores grow with the factor, too.
  const double above = c.latent.size > 0 ? read(*scaling, "mscale_all_dim", 0.0) : 0;
  if (above > 0 && rope.factor > 1 && rope.scaling != RopeScaling::none)
    c.attention_scale =
        std::pow(1 + 0.1 * above * std::log(rope.factor), 2) / std::sqrt(static_cast<double>(c.head_size));
  c.temperature.scale = read(*scaling, "llama_4_scaling_beta", 0.0);
  if (c.temperature.scale > 0) c.temperature.floor = c.original_context();
}

void read_window(const Json& json, DecoderConfig& c) {
  c.window = read<std::int64_t>(json, "sliding_window", 0);
  const bool asked_for = architecture_of(c).window_is_asked_for;
  const Json* types = field(json, "layer_types");
  if (!read(json, "use_sliding_window", !asked_for)) c.window = 0;
  if (asked_for && c.window > 0 && types == nullptr) {
    // Qwen's window is that of the layers from this one on.
    const std::int64_t first = read<std::int64_t>(json, "max_window_layers", 28);
    std::vector<bool> windowed;
    for (std::int64_t i = 0; i < std::min(c.layers, kMostLayers); ++i) windowed.push_back(i >= first);
    if (first > 0) set_windows(c, windowed);
    if (first >= c.layers) c.window = 0;
  }
  if (types == nullptr) {
    c.window_every = read<std::int64_t>(json, "sliding_window_pattern", c.window_every);
    return;
  }
  std::vector<bool> windowed;
  const bool chunks = field(json, "attention_chunk_size") != nullptr && architecture_of(c).read_json != nullptr;
  for (const Json& kind : types->is_array() ? *types : Json::array({*types})) {
    if (kind != "full_attention" && kind != "sliding_attention" && !(chunks && kind == "chunked_attention"))
      throw FormatError(fmt::format("'layer_types' has {}; known are \"full_attention\" and \"sliding_attention\"",
                                    data::json_brief(kind)));
    windowed.push_back(kind == "sliding_attention");
  }
  if (c.window > 0 && !set_windows(c, windowed))
    throw FormatError(fmt::format("'layer_types' has {} entries for {} layers", windowed.size(), c.layers));
}

/// Which layers rotate queries and keys, where the file says so; else empty.
std::vector<bool> read_rotated(const Json& json, const Architecture& a, const DecoderConfig& c) {
  if (a.rotated != RotatedLayers::not_every_fourth) return {};
  std::vector<bool> rotated;
  const Json* list = field(json, "no_rope_layers");
  if (list != nullptr && list->is_array() && !list->empty()) {
    for (const Json& one : *list) rotated.push_back(one != 0 && one != false);
    if (std::ssize(rotated) != c.layers)
      throw FormatError(fmt::format("'no_rope_layers' describes {} layers of {}", rotated.size(), c.layers));
    return rotated;
  }
  const std::int64_t every = if_given(json, "no_rope_layer_interval", 4);
  for (std::int64_t i = 0; i < std::min(c.layers, kMostLayers); ++i) rotated.push_back((i + 1) % every != 0);
  return rotated;
}

/// Sizes of latent attention.
void read_latent(const Json& json, DecoderConfig& c) {
  const std::int64_t turned = required(json, "qk_rope_head_dim"), still = required(json, "qk_nope_head_dim");
  for (const std::int64_t size : {turned, still})
    if (size < 1 || size > 1 << 14) throw FormatError(fmt::format("a head of keys has {} elements of a kind", size));
  c.latent.size = required(json, "kv_lora_rank");
  c.latent.query_size = read<std::int64_t>(json, "q_lora_rank", 0);
  c.latent.value_size = required(json, "v_head_dim");
  c.head_size = turned + still;
  c.kv_heads = c.heads;
  c.rope.size = turned;
}

/// Biases of attention's projections.
void read_attention_bias(const Json& json, const Architecture& a, DecoderConfig& c) {
  if (a.attention_bias != AttentionBias::none) c.query_bias = read(json, key_of(a, "attention_bias"), c.query_bias);
  if (a.attention_bias == AttentionBias::all) c.output_bias = c.query_bias;
  c.output_bias = read(json, "attention_out_bias", c.output_bias);
}

/// Factors of embeddings, logits, scores and the residual stream.
void read_factors(const Json& json, const Architecture& a, DecoderConfig& c) {
  c.embedding_scale = read(json, "embedding_multiplier", c.embedding_scale);
  c.residual_scale = read(json, "residual_multiplier", c.residual_scale);
  c.attention_scale = read(json, "attention_multiplier", c.attention_scale);
  const double logits = read(json, key_of(a, "logit_scale"), a.divides_logits ? 1 / c.logit_scale : c.logit_scale);
  if (!(logits > 0)) throw FormatError(fmt::format("'{}' is {}; it must be above 0", key_of(a, "logit_scale"), logits));
  c.logit_scale = a.divides_logits ? 1 / logits : logits;
}

/// BitNet's files have ternary weights ("offline"), or weights that are rounded where they are used ("online").
void read_bitnet(const Json& json, DecoderConfig& c) {
  const std::string linear = read<std::string>(json, "linear_class", "bitlinear");
  if (linear != "autobitlinear") {
    throw FormatError(
        fmt::format("BitNet with packed weights ('linear_class' of quantization_config is '{}') does not run here; "
                    "wanted 'autobitlinear', or the model as a GGUF file",
                    linear));
  }
  const std::string mode = read<std::string>(json, "quantization_mode", "offline");
  if (mode != "online" && mode != "offline") {
    throw FormatError(
        fmt::format("'quantization_mode' of quantization_config is '{}'; known are online and offline", mode));
  }
  if (read(json, "use_rms_norm", false))
    throw FormatError("BitNet with a norm in each layer ('use_rms_norm' of quantization_config) does not run here");
  c.rounds_to_ternary = mode == "online";
  c.ternary_scales = mode == "offline";
  const Json* kept = field(json, "modules_to_not_convert");
  if (kept == nullptr || !kept->is_array() || !c.rounds_to_ternary) return;
  for (const Json& name : *kept) {
    if (name != "lm_head")
      throw FormatError(fmt::format("BitNet with weights of {} that are not rounded does not run here", name.dump()));
  }
}

/// Experts in blocks of 4-bit floats, which expert_tensors.h reads.
void read_mxfp4(const Json&, DecoderConfig& c) {
  if (!architecture_of(c).experts.in_by_out)
    throw FormatError(fmt::format("weights of '{}' in MXFP4 do not run here; supported are those of experts of gpt_oss",
                                  architecture_of(c).hugging_face));
}

/// Weights that a file of Hugging Face holds in another form than f32, f16 and bf16.
struct QuantMethod {
  std::string_view name;  ///< 'quant_method' of quantization_config
  void (*read)(const Json& quantization, DecoderConfig& config);
};
constexpr QuantMethod kQuantMethods[] = {{"bitnet", read_bitnet}, {"mxfp4", read_mxfp4}};

/// @param holder of the key, whose other methods must not be read as if their weights were plain
void read_quantization(const Json& holder, const char* key, DecoderConfig& c) {
  const Json* quantization = field(holder, key);
  if (quantization == nullptr) return;
  if (!quantization->is_object())
    throw FormatError(fmt::format("'{}' is {}; wanted an object", key, data::json_brief(*quantization)));
  const std::string method = read<std::string>(*quantization, "quant_method", "");
  std::string known;
  for (const QuantMethod& row : kQuantMethods) {
    if (row.name == method) return row.read(*quantization, c);
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", row.name);
  }
  throw FormatError(
      fmt::format("weights quantized by {} ('quant_method' of {}) do not run here; supported is {}; try the model in "
                  "f32, f16 or bf16, or as a GGUF file",
                  method.empty() ? "a method without a name" : fmt::format("'{}'", method), key, known));
}

/// @param one whose files may say that attention is in both directions
const Architecture& with_directions(const Architecture& one, const Json& json) {
  // Gemma 4 names the inputs that attend so; a text does not where only images do.
  const Json* both = field(json, "use_bidirectional_attention");
  if (both == nullptr || *both == false || *both == "vision") return one;
  if (*both != true || one.in_both_directions.empty())
    throw FormatError(
        fmt::format("attention in both directions ('use_bidirectional_attention' is {}) runs here in models of the "
                    "type gemma3_text",
                    data::json_brief(*both)));
  return *find_architecture_gguf(one.in_both_directions);
}

/// The row of a file's model type. Sets `one_bit` where the file says so.
const Architecture& architecture_in(const Json& json, bool& one_bit) {
  const std::string type = read<std::string>(json, "model_type", "");
  const Architecture* found = find_architecture_hugging_face(type);
  if (found == nullptr) {
    refuse_encoder(type);
    throw FormatError(
        fmt::format("models of the type '{}' do not run here; these do: {}", type, hugging_face_type_names()));
  }
  if (found->of_one_bit.empty()) return with_directions(*found, json);
  // The first BitNet b1.58 models call themselves llama, and round their weights where they use them.
  const auto bits = read<std::int64_t>(json, "weight_bits", 0);
  if (bits > 1) throw FormatError(fmt::format("weights that are rounded to {} bits do not run here", bits));
  one_bit = bits == 1;
  return one_bit ? *find_architecture_gguf(found->of_one_bit) : with_directions(*found, json);
}

DecoderConfig decoder_config_json_read_config(const Json& whole) {
  // Models of several kinds of input keep the text's part apart.
  const Json* text = field(whole, "text_config");
  const Json& json = text != nullptr && text->is_object() ? *text : whole;
  DecoderConfig c;
  const Architecture& a = architecture_in(json, c.rounds_to_ternary);
  a.apply(c);
  c.architecture = a.gguf;
  c.name = read<std::string>(json, "_name_or_path", "");
  const auto key = [&](const char* name) { return key_of(a, name); };
  const auto size = [&](const char* name, std::int64_t otherwise) {
    return otherwise > 0 ? read(json, key(name), otherwise) : required(json, key(name));
  };
  c.vocabulary = size("vocab_size", a.vocabulary);
  c.width = required(json, key("hidden_size"));
  const bool lists_layers = a.states.single && field(json, key("num_hidden_layers")) == nullptr;
  c.layers = lists_layers ? listed_layers(json) : required(json, key("num_hidden_layers"));
  c.next_layers =
      read<std::int64_t>(json, "num_nextn_predict_layers", read<std::int64_t>(json, "mtp_num_hidden_layers", 0));
  if (!a.states.no_attention) {
    c.heads = size("num_attention_heads", a.heads);
    c.kv_heads = if_given(json, key("num_key_value_heads"), a.kv_heads > 0 ? a.kv_heads : c.heads);
    c.head_size = if_given(json, key("head_dim"), a.head_size);
  }
  if (a.latent) read_latent(json, c);
  const Json* columns = field(json, key("intermediate_size"));
  const bool by_layer = a.read_json != nullptr && columns != nullptr && columns->is_array();
  if (a.states.there())
    c.feed_forward = read<std::int64_t>(json, key("intermediate_size"), 0);
  else if (!by_layer)
    c.feed_forward = size("intermediate_size", a.feed_forward_per_width * c.width);
  c.context = size("max_position_embeddings", a.context);
  c.rope.base = a.rope_base;
  c.norm_eps =
      c.norm == NormKind::rms ? read(json, key("rms_norm_eps"), 1e-6) : read(json, key("layer_norm_eps"), 1e-5);
  // The part's own may be a default that its model does not heed.
  c.tied = read(whole, "tie_word_embeddings", read(json, "tie_word_embeddings", c.tied));
  read_attention_bias(json, a, c);
  c.ffn_bias = read(json, "mlp_bias", c.ffn_bias);
  c.head_bias = read(json, "lm_head_bias", c.head_bias);
  c.qkv_limit = read(json, "clip_qkv", 0.0);
  c.query_key_norm = read(json, "use_qk_norm", c.query_key_norm);
  if (a.says_parallel) c.parallel = read(json, "use_parallel_residual", c.parallel);
  if (!a.states.there() && !read(json, "use_bias", true)) c.query_bias = c.output_bias = c.ffn_bias = false;
  const std::string activation =
      read<std::string>(json, "hidden_activation", read<std::string>(json, key("hidden_act"), ""));
  if (!activation.empty() && !a.fixed_activation) {
    c.xielu = activation == "xielu";
    if (!c.xielu) c.activation = read_activation(activation);
  }
  const bool head_norms = read(json, "qk_layernorm", false);
  if (head_norms && !a.says_head_norms)
    throw FormatError("layer norms that heads of queries and keys share ('qk_layernorm') do not run here");
  if (head_norms) c.query_key_norm = c.norms_all_heads = c.layer_norms_heads = true;
  if (!read(json, "scale_attn_weights", true))
    throw FormatError("scores that are not scaled ('scale_attn_weights' is false) do not run here");
  if (read(json, "scale_attn_by_inverse_layer_idx", false))
    throw FormatError("scores scaled by the layer ('scale_attn_by_inverse_layer_idx') do not run here");
  // Null means none, and what is missing is the family's.
  const auto softcap = [&](const char* name, double otherwise) {
    return json.contains(name) ? read(json, name, 0.0) : otherwise;
  };
  c.attention_softcap = softcap("attn_logit_softcapping", c.attention_softcap);
  c.logit_softcap = softcap("final_logit_softcapping", c.logit_softcap);
  const double scalar = read(json, "query_pre_attn_scalar", a.query_scalar);
  if (scalar > 0) c.attention_scale = 1 / std::sqrt(scalar);
  fill_defaults(c);
  read_factors(json, a, c);
  if (a.states.there()) {
    read_states(json, a.states, c);
  } else {
    read_window(json, c);
    set_layers(c, read_rotated(json, a, c));
  }
  if (a.experts.there && (!a.states.single || lists_experts(c))) read_experts(json, a.experts, c);
  if (c.positions == PositionKind::rotary && c.heads > 0) decoder_config_json_read_rope(json, a, c);
  if (a.read_json != nullptr) a.read_json(json, c);
  // Beside the text's part, too; compressed-tensors' first files have the second name.
  for (const Json* holder : {&json, &whole})
    for (const char* name : {"quantization_config", "compression_config"}) read_quantization(*holder, name, c);
  return c;
}

/// The object that read_scaling() reads.
Json scaling_json(const RopeConfig& rope) {
  Json json = {{"rope_type", written_scaling(rope.scaling)}, {"factor", rope.factor}};
  if (rope.original_context > 0) json["original_max_position_embeddings"] = rope.original_context;
  if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  if (rope.scaling == RopeScaling::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
  }
  if (rope.scaling == RopeScaling::llama3) {
    json["low_freq_factor"] = rope.low_frequency_factor;
    json["high_freq_factor"] = rope.high_frequency_factor;
  }
  if (rope.scaling == RopeScaling::longrope) {
    json["short_factor"] = rope.short_divisors;
    json["long_factor"] = rope.long_divisors;
  }
  return json;
}

}  // namespace

std::string config_json(const DecoderConfig& c) {
  const Architecture* a = find_architecture_gguf(c.architecture);
  if (a == nullptr || !a->is_written)
    throw Error(fmt::format("config_json: models of the architecture '{}' are read, not written", c.architecture));
  const auto key = [&](const char* name) { return key_of(*a, name); };
  Json json = {{"model_type", a->hugging_face},
               {"vocab_size", c.vocabulary},
               {key("max_position_embeddings"), c.context},
               {key("hidden_size"), c.width},
               {key("num_hidden_layers"), c.layers},
               {key("num_attention_heads"), c.heads},
               {key("intermediate_size"), c.feed_forward},
               {c.norm == NormKind::rms ? "rms_norm_eps" : key("layer_norm_eps"), c.norm_eps},
               {key("hidden_act"), written_activation(c.activation)},
               {"tie_word_embeddings", c.tied}};
  if (c.positions != PositionKind::rotary) return json.dump(2);
  json["num_key_value_heads"] = c.kv_heads;
  json["head_dim"] = c.head_size;
  json["rope_theta"] = c.rope.base;
  json["attention_bias"] = c.query_bias;
  json["mlp_bias"] = c.ffn_bias;
  if (c.rope.interleaved) json["rope_interleaved"] = true;
  if (!c.rope.divisors.empty() || c.rope.extrapolation != 1)
    throw Error("config_json: a config.json has no word for divisors of rope's frequencies and yarn's extrapolation");
  if (!c.each_layer.empty() || c.residual_scale != 1 || c.embedding_scale != 1 || c.logit_scale != 1 ||
      c.temperature.scale > 0 || c.attention_gate || !c.pre_norms || c.post_norms || c.query_key_norm || c.parallel ||
      c.xielu || c.qkv_limit > 0)
    throw Error("config_json: a config.json of llama has no word for other norms, factors and layers that differ");
  if (c.output_bias != c.query_bias || c.head_bias || c.window_every != 1)
    throw Error("config_json: a config.json of llama has no word for biases or windows of some layers only");
  if (c.attention_softcap > 0) json["attn_logit_softcapping"] = c.attention_softcap;
  if (c.logit_softcap > 0) json["final_logit_softcapping"] = c.logit_softcap;
  if (c.rope.scaling != RopeScaling::none) json["rope_scaling"] = scaling_json(c.rope);
  if (c.rope.size != c.head_size)
    json["partial_rotary_factor"] = static_cast<double>(c.rope.size) / static_cast<double>(c.head_size);
  if (c.attention_scale > 0) json["query_pre_attn_scalar"] = 1 / (c.attention_scale * c.attention_scale);
  if (c.window > 0) json["sliding_window"] = c.window;
  return json.dump(2);
}

DecoderConfig decoder_config(std::string_view json, const std::string& name) {
  try {
    DecoderConfig config =
        decoder_config_json_read_config(data::parse_json_object(with_finite_numbers(json), name, "config"));
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what();
    throw FormatError(what.starts_with(name) ? what : fmt::format("{}: {}", name, what));
  }
}

}  // namespace etna::models
