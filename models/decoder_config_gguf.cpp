#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/internal/log.h>
#include <etna/models/decoder_config.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/gguf_fields.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/llama2c.h>

namespace etna::models {

std::vector<std::int64_t> GgufFields::by_layer(const char* key, std::int64_t layers) const {
  const io::GgufValue* value = find(key);
  if (value == nullptr || !value->is_list())
    return std::vector<std::int64_t>(static_cast<std::size_t>(layers), integer(key));
  std::vector<std::int64_t> all = file.integers(prefix_ + key);
  // Layers that predict further tokens are behind the others.
  if (std::ssize(all) != layers && std::ssize(all) != layers + integer("nextn_predict_layers", 0))
    throw FormatError(fmt::format("'{}{}' has {} numbers for {} layers", prefix_, key, all.size(), layers));
  all.resize(static_cast<std::size_t>(layers));
  return all;
}

std::int64_t GgufFields::of_layers(const char* key, std::int64_t layers, bool some_have_none) const {
  const io::GgufValue* value = find(key);
  if (value == nullptr || !value->is_list()) return integer(key);
  const std::vector<std::int64_t> all = by_layer(key, layers);
  const std::int64_t most = all.empty() ? 0 : *std::max_element(all.begin(), all.end());
  for (const std::int64_t one : all) {
    if (some_have_none && (one == 0 || one == most)) continue;
    if (one != all[0]) {
      throw FormatError(
          fmt::format("'{}{}' is {} in the first layer and {} in another; layers of different sizes do "
                      "not run here",
                      prefix_, key, all[0], one));
    }
  }
  return some_have_none ? most : all.at(0);
}

bool GgufFields::has_tensor(std::int64_t layer, const char* part) const {
  return file.find_tensor(fmt::format("blk.{}.{}", layer, part)) != nullptr;
}

namespace {

RopeScaling scaling_named(const std::string& type) {
  if (type.empty() || type == "none") return RopeScaling::none;
  if (type == "linear") return RopeScaling::linear;
  if (type == "yarn") return RopeScaling::yarn;
  if (type == "longrope") return RopeScaling::longrope;
  throw FormatError(fmt::format("the scaling of rope is '{}'; known are none, linear, yarn and longrope", type));
}

void decoder_config_gguf_read_rope(const GgufFields& read, const io::GgufFile& file, DecoderConfig& c) {
  RopeConfig& rope = c.rope;
  rope.size = read.integer("rope.dimension_count", rope.size);
  rope.base = read.number("rope.freq_base", rope.base);
  c.window_rope_base = read.number("rope.freq_base_swa", c.window_rope_base);
  const std::string type = read.string("rope.scaling.type", "");
  rope.scaling = scaling_named(type);
  rope.factor = read.number("rope.scaling.factor", read.number("rope.scale_linear", 1));
  if (rope.factor == 0) rope.factor = 1;
  // As in llama.cpp, a factor without a type is of linear scaling.
  if (type.empty() && rope.factor != 1) rope.scaling = RopeScaling::linear;
  rope.original_context = read.integer("rope.scaling.original_context_length", c.context);
  if (rope.scaling == RopeScaling::yarn) {
    rope.beta_fast = read.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
    rope.beta_slow = read.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
    const double extrapolation = read.number("rope.scaling.yarn_ext_factor", -1);
    if (extrapolation >= 0) rope.extrapolation = extrapolation;
    // Positions that are all divided are those of linear scaling, whose rule has no factor.
    if (rope.extrapolation == 0) rope.attention_factor = 1;
    // The rule's factor over that of another one (DeepSeek's `mscale_all_dim`).
    const double above = read.number("rope.scaling.yarn_log_multiplier", 0);
    if (above > 0 && rope.factor > 1)
      rope.attention_factor = (1 + 0.1 * std::log(rope.factor)) / (1 + 0.1 * above * std::log(rope.factor));
    // Converters copy it from config.json, where it replaces the rule's.
    const double whole = read.number("rope.scaling.yarn_attn_factor", 0);
    if (whole > 0) rope.attention_factor = whole;
  }
  if (file.find_tensor("rope_freqs.weight") != nullptr)
    rope.divisors = file.load("rope_freqs.weight").to(f32).to_vector<float>();
  for (const auto& [name, list] : {std::pair{"rope_factors_short.weight", &rope.short_divisors},
                                   std::pair{"rope_factors_long.weight", &rope.long_divisors}}) {
    if (file.find_tensor(name) == nullptr) continue;
    *list = file.load(name).to(f32).to_vector<float>();
    rope.scaling = RopeScaling::longrope;
  }
  // The file has the factor of longrope, which llama.cpp does not compute.
  if (rope.scaling == RopeScaling::longrope) rope.attention_factor = 1;
  const double given = read.number("rope.scaling.attn_factor", 0);
  if (!(given >= 0)) throw FormatError(fmt::format("rope's attention factor is {}; it must be 0 or above", given));
  if (given > 0) rope.attention_factor = given * c.rope_magnitude();
}

/// A number of layers that repeat, the last of them without the window, or whether each layer has it.
void read_windows(const io::GgufFile& file, DecoderConfig& c) {
  const std::string key = c.architecture + ".attention.sliding_window_pattern";
  const io::GgufValue* pattern = file.find(key);
  if (pattern == nullptr || c.window == 0) return;
  if (pattern->type() != io::GgufType::array) {
    c.window_every = std::max<std::int64_t>(1, file.integer(key));
    return;
  }
  const bool of_switches = pattern->item_type() == io::GgufType::boolean;
  std::vector<bool> windowed;
  if (of_switches) {
    windowed = pattern->booleans();
  } else {
    for (const std::int64_t layer : file.integers(key)) windowed.push_back(layer != 0);
  }
  if (!set_windows(c, windowed))
    throw FormatError(fmt::format("'{}' has {} entries for {} layers", key, windowed.size(), c.layers));
}

/// Factors of embeddings, logits and the residual stream, and of queries by their position.
void read_factors(const GgufFields& read, const Architecture& architecture, DecoderConfig& c) {
  if (architecture.factors == GgufFactors::all) {
    c.embedding_scale = read.number("embedding_scale", c.embedding_scale);
    c.residual_scale = read.number("residual_scale", c.residual_scale);
  }
  if (architecture.factors != GgufFactors::none && read.has("logit_scale")) {
    const double logits = read.number("logit_scale", 1);
    if (!(logits > 0)) throw FormatError(fmt::format("'logit_scale' is {}; it must be above 0", logits));
    c.logit_scale = architecture.divides_logits ? 1 / logits : logits;
  }
  if (!architecture.scales_queries) return;
  c.temperature.scale = read.number("attention.temperature_scale", 0);
  c.temperature.floor = read.integer("attention.temperature_length", c.original_context());
}

/// Mixtures of experts: a layer has one if it has a router.
void read_gguf_experts(const GgufFields& read, const io::GgufFile& file, DecoderConfig& c) {
  ExpertConfig& e = c.experts;
  e.count = read.integer("expert_count", 0);
  if (e.count == 0 || c.layers > kMostLayers) return;
  e.chosen = read.integer("expert_used_count");
  e.feed_forward = read.integer("expert_feed_forward_length", c.feed_forward);
  const std::int64_t gating = read.integer("expert_gating_func", 0);
  if (gating > 3) throw FormatError(fmt::format("the gating function of experts is {}; known are 1, 2 and 3", gating));
  if (gating > 0 && e.router != RouterKind::sparsemixer)
    e.router = gating == 2 ? RouterKind::sigmoid : RouterKind::softmax;
  // A softmax over the chosen experts' logits is that over all of them, normalized.
  e.normalized = read.boolean("expert_weights_norm", e.normalized || gating == 3);
  e.scale = read.number("expert_weights_scale", 1);
  if (e.scale == 0) e.scale = 1;
  e.latent = read.integer("moe_latent_size", 0);
  e.groups = read.integer("expert_group_count", 1);
  e.chosen_groups = read.integer("expert_group_used_count", e.groups);
  std::vector<bool> has;
  e.choice_bias = false;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    has.push_back(read.has_tensor(i, "ffn_gate_inp.weight"));
    e.choice_bias = e.choice_bias || read.has_tensor(i, "exp_probs_b.bias");
    const io::GgufTensor* shared = file.find_tensor(fmt::format("blk.{}.ffn_up_shexp.weight", i));
    if (shared != nullptr && shared->shape.rank() == 2) e.shared = shared->shape[0];
  }
  set_expert_layers(c, has);
}

/// Layers that keep a state: what a layer has follows from its tensors.
void read_gguf_states(const GgufFields& read, const StateRules& rules, DecoderConfig& c) {
  StateConfig& s = c.state;
  const auto has = [&](std::int64_t layer, const char* part) { return read.has_tensor(layer, part); };
  if (rules.mixer == MixerKind::convolution) {
    s.kernel = read.integer("shortconv.l_cache");
  } else {
    const std::int64_t inner = read.integer("ssm.inner_size");
    s.kernel = read.integer("ssm.conv_kernel");
    s.key_size = read.integer("ssm.state_size");
    s.heads = read.integer("ssm.time_step_rank");
    s.key_heads = read.integer("ssm.group_count", 1);
    if (rules.mixer != MixerKind::delta) s.norm_groups = s.key_heads;
    s.tiled = rules.tiled_in_gguf && s.key_heads != s.heads;
    if (s.heads < 1 || inner % s.heads != 0)
      throw FormatError(fmt::format(
          "'ssm.inner_size' is {} and 'ssm.time_step_rank' {}; the second must divide the first", inner, s.heads));
    s.value_size = inner / s.heads;
    s.norm = false;
    if (rules.least_step) s.least_step = 0.001;
  }
  if (c.layers > kMostLayers) return;  // which check() refuses
  const bool rotary = rules.rotary && (!rules.asks_for_rotary || read.boolean("rope.scaling.finetuned", false));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& layer = c.each_layer.emplace_back();
    const bool state = has(i, "ssm_conv1d.weight") || has(i, "shortconv.in_proj.weight");
    layer.mixer = state ? rules.mixer : has(i, "attn_q.weight") ? MixerKind::attention : MixerKind::none;
    layer.has_feed_forward = has(i, "ffn_up.weight") || has(i, "ffn_gate_inp.weight");
    if (layer.mixer == MixerKind::none && !layer.has_feed_forward)
      throw FormatError(fmt::format("layer {} has neither attention, a state nor a feed-forward layer", i));
    layer.rotary = rotary;
    s.norm = s.norm || has(i, "ssm_norm.weight");
    s.kernel_bias = s.kernel_bias || has(i, "ssm_conv1d.bias");
  }
}

/// The width of feed-forward layers that are no mixtures, or of all where these are alike.
std::int64_t feed_forward_in(const GgufFields& read, const Architecture& architecture, std::int64_t layers) {
  const io::GgufValue* value = read.find("feed_forward_length");
  if (value == nullptr && (architecture.states.no_attention || read.integer("expert_count", 0) > 0)) return 0;
  const bool differ =
      architecture.sizes_by_layer || (architecture.states.single && read.integer("expert_count", 0) > 0);
  if (!differ || layers > kMostLayers || value == nullptr || !value->is_list())
    return read.of_layers("feed_forward_length", layers, architecture.states.there());
  const std::vector<std::int64_t> all = read.by_layer("feed_forward_length", layers);
  for (std::int64_t i = 0; i < layers; ++i)
    if (read.has_tensor(i, "ffn_up.weight")) return all[static_cast<std::size_t>(i)];
  return 0;
}

DecoderConfig decoder_config_gguf_read_config(const io::GgufFile& file) {
  DecoderConfig c;
  c.architecture = file.string("general.architecture");
  const Architecture& architecture = require_architecture(c.architecture);
  architecture.apply(c);
  const GgufFields read(file, c.architecture);
  c.name = file.string("general.name", "");
  c.context = read.integer("context_length");
  c.width = read.integer("embedding_length");
  c.next_layers = read.integer("nextn_predict_layers", 0);
  c.layers = read.integer("block_count") - c.next_layers;
  if (c.layers < 1)
    throw FormatError(fmt::format("'{}.block_count' is {}; it must be above 0", c.architecture, c.layers));
  const bool states = architecture.states.there();
  c.heads = read.of_layers("attention.head_count", c.layers, states);
  c.kv_heads = c.heads;
  if (read.has("attention.head_count_kv"))
    c.kv_heads = architecture.sizes_by_layer && c.layers <= kMostLayers
                     ? read.by_layer("attention.head_count_kv", c.layers).front()
                     : read.of_layers("attention.head_count_kv", c.layers, states);
  if (c.kv_heads < 1 && !states)
    throw FormatError(
        fmt::format("'{}.attention.head_count_kv' is {}; it must be above 0", c.architecture, c.kv_heads));
  c.head_size = read.integer("attention.key_length", 0);
  c.feed_forward = feed_forward_in(read, architecture, c.layers);
  if (!architecture.latent && read.integer("attention.value_length", c.head_size) != c.head_size)
    throw FormatError("heads of keys and of values have different sizes; they must be equal");
  c.norm_eps = read.number(
      c.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.norm_eps);
  const io::GgufTensor& table = file.tensor("token_embd.weight");
  c.vocabulary = table.shape.rank() == 2 ? table.shape[0] : 0;
  if (const std::int64_t said = read.integer("vocab_size", c.vocabulary); said != c.vocabulary)
    log().warn("'{}.vocab_size' is {}, and the token table has {} rows; the table counts", c.architecture, said,
               c.vocabulary);
  c.attention_softcap = read.number("attn_logit_softcapping", c.attention_softcap);
  c.logit_softcap = read.number("final_logit_softcapping", c.logit_softcap);
  c.attention_scale = read.number("attention.scale", c.attention_scale);
  c.window = read.integer("attention.sliding_window", 0);
  read_windows(file, c);
  fill_defaults(c);
  set_layers(c);
  if (states) read_gguf_states(read, architecture.states, c);
  read_gguf_experts(read, file, c);
  decoder_config_gguf_read_rope(read, file, c);
  if (architecture.plain_window_rope && c.window > 0 && c.window_rope_base == 0) c.window_rope_base = c.rope.base;
  read_factors(read, architecture, c);
  if (architecture.says_parallel) c.parallel = read.boolean("use_parallel_residual", c.parallel);

  const auto has = [&](const char* name) { return file.find_tensor(name) != nullptr; };
  c.tied = !has("output.weight");
  // Of the first layer that has the part.
  const auto in_some_layer = [&](const char* part) {
    for (std::int64_t i = 0; i < (states ? std::min(c.layers, kMostLayers) : 1); ++i)
      if (has(fmt::format("blk.{}.{}", i, part).c_str())) return true;
    return false;
  };
  c.query_bias = in_some_layer("attn_q.bias") || has("blk.0.attn_qkv.bias");
  c.output_bias = in_some_layer("attn_output.bias");
  c.ffn_bias = in_some_layer("ffn_down.bias");
  c.head_bias = has("output.bias");
  c.query_key_norm = in_some_layer("attn_q_norm.weight");
  if (architecture.says_head_norms) c.norms_all_heads = c.layer_norms_heads = c.query_key_norm;
  c.ternary_scales = has("blk.0.attn_q.scale");
  // Gemma 2 and 3 with 27 billion weights scale by what a head has of the width. Their files do not say so.
  if (architecture.wide_scores_at_layers == c.layers && c.attention_scale == 0 && c.heads > 0)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.width / c.heads));
  if (architecture.read_gguf != nullptr) architecture.read_gguf(read, c);
  return c;
}

}  // namespace

DecoderConfig decoder_config(const io::GgufFile& file) {
  try {
    DecoderConfig config = decoder_config_gguf_read_config(file);
    config.check();
    return config;
  } catch (const FormatError& error) {
    const std::string what = error.what(), path = file.path().string();
    if (what.find(path) != std::string::npos) throw;
    throw FormatError(fmt::format("{}: {}", path, what));
  }
}

DecoderConfig decoder_config(const io::Llama2cConfig& from) {
  DecoderConfig c;
  c.vocabulary = from.vocabulary;
  c.context = from.context;
  c.width = from.width;
  c.layers = from.layers;
  c.heads = from.heads;
  c.kv_heads = from.kv_heads;
  c.head_size = from.head_width();
  c.feed_forward = from.feed_forward;
  c.tied = from.tied;
  c.rope.size = c.head_size;
  c.rope.interleaved = true;
  c.check();
  return c;
}

}  // namespace etna::models
