#include <etna/models/model_file.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/encoder.h>
#include <etna/models/internal/architecture_rows.h>
#include <etna/models/internal/encoder_names.h>
#include <etna/models/internal/gguf_tensors.h>
#include <etna/models/internal/gguf_vocabulary.h>

namespace etna::models {
namespace {

std::vector<bool> windows_of(const DecoderConfig& c) {
  std::vector<bool> windowed;
  for (std::int64_t i = 0; i < c.layers; ++i) windowed.push_back(c.has_window(i));
  return windowed;
}

bool rotates_alike(const DecoderConfig& a, const DecoderConfig& b) {
  for (std::int64_t i = 0; i < a.layers; ++i)
    if (a.layer(i).rotary != b.layer(i).rotary) return false;
  return true;
}

/// The design that GGUF's name of an architecture stands for.
DecoderConfig standard_config(const DecoderConfig& c) {
  DecoderConfig standard;
  standard.architecture = c.architecture;
  standard.width = c.width;
  standard.layers = c.layers;
  if (const Architecture* architecture = find_architecture_gguf(c.architecture)) architecture->apply(standard);
  fill_defaults(standard);
  DecoderConfig windows = standard;
  windows.window = c.window;
  set_windows(windows, windows_of(c));
  set_layers(windows);
  standard.each_layer = windows.each_layer;
  return standard;
}

/// GGUF has no words for some parts of a design: the architecture's name implies them.
/// @throws FormatError for a part that it implies otherwise
void check_design(const DecoderConfig& c, const DecoderConfig& standard) {
  const auto kind = [](Activation activation) {
    // llama.cpp computes GELU by its approximation, which is off by less than 0.0005.
    return activation == Activation::gelu ? Activation::gelu_tanh : activation;
  };
  const Architecture& architecture = architecture_of(c);
  const StateConfig& state = c.state;
  const bool turns = architecture.neighbours_in_gguf, rotary = c.positions == PositionKind::rotary;
  const bool delta = architecture.states.mixer == MixerKind::delta;
  const char* other = architecture.differs_from_gguf == nullptr ? nullptr : architecture.differs_from_gguf(c);
  for (const auto& [what, same] :
       {std::pair{"activation", c.xielu == standard.xielu && kind(c.activation) == kind(standard.activation)},
        {"feed-forward layer", c.gated == standard.gated},
        {"set of norms", c.norm == standard.norm && c.norm_bias == standard.norm_bias &&
                             c.pre_norms == standard.pre_norms && c.post_norms == standard.post_norms &&
                             c.sub_norms == standard.sub_norms &&
                             (architecture.says_head_norms || c.norms_all_heads == standard.norms_all_heads)},
        {"order of layers", architecture.says_parallel || c.parallel == standard.parallel},
        {"set of rotated layers", !rotary || c.has_state() || rotates_alike(c, standard)},
        {"kind of positions", c.positions == standard.positions},
        {"order of rotated pairs", !rotary || c.rope.interleaved == standard.rope.interleaved ||
                                       (turns && (c.rope.size == c.head_size || c.has_state()))},
        {"set of pairs that YaRN keeps",
         c.rope.scaling != RopeScaling::yarn || c.rope.whole_bounds == standard.rope.whole_bounds},
        {"factor of embeddings",
         architecture.factors == GgufFactors::all || c.embedding_scale == standard.embedding_scale},
        {"factor of the residual stream", architecture.factors == GgufFactors::all || c.residual_scale == 1},
        {"factor of logits", architecture.factors != GgufFactors::none || c.logit_scale == 1},
        {"kind of attention", !architecture.only_hugging_face && c.qkv_limit == 0 && c.sinks == standard.sinks &&
                                  c.attention_gate == standard.attention_gate && c.value_norm == standard.value_norm},
        {"kind of experts", c.experts.limit == standard.experts.limit && c.experts.bias == standard.experts.bias &&
                                c.experts.scales_input == standard.experts.scales_input &&
                                (c.experts.count == 0 || c.experts.shared_gate == standard.experts.shared_gate)},
        {"set of layers with experts", c.experts.count == 0 || !architecture.experts.dense_first.empty() ||
                                           architecture.differs_from_gguf != nullptr || c.has_state() ||
                                           c.layer(0).experts},
        {"factor of experts", c.experts.count == 0 || architecture.experts.scaled ||
                                  (c.experts.normalized == standard.experts.normalized && c.experts.scale == 1)},
        {"set of biases", !c.has_state() || (!state.input_bias && !state.output_bias)},
        {"norm behind a state", !c.has_state() || delta || !state.norm || c.state.key_heads <= 1 ||
                                    (!state.norm_before_gate && state.norm_groups == state.key_heads)},
        {"limit of steps of time",
         state.least_step == (architecture.states.least_step ? 0.001 : 0) && state.largest_step >= 1e30},
        {"factor of queries", architecture.scales_queries || c.temperature.scale == 0},
        {other == nullptr ? "" : other, other == nullptr}}) {
    if (!same) {
      throw FormatError(
          fmt::format("a GGUF file cannot hold the model: its {} differs from that of the architecture '{}' there",
                      what, c.architecture));
    }
  }
}

/// Sizes of layers that keep a state, and which layers have attention and a feed-forward layer.
void set_states(io::GgufWriter& to, const DecoderConfig& c) {
  const auto key = [&](const char* last) { return c.architecture + "." + last; };
  const auto whole = [&](const char* last, std::int64_t value) {
    to.set(key(last), static_cast<std::uint32_t>(value));
  };
  const StateConfig& s = c.state;
  std::vector<std::int32_t> kv_heads, widths;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    kv_heads.push_back(layer.has_attention() ? static_cast<std::int32_t>(c.kv_heads) : 0);
    const bool mixture = layer.experts && architecture_of(c).states.single;
    const std::int64_t width = mixture ? c.experts.feed_forward : c.feed_forward;
    widths.push_back(layer.has_feed_forward ? static_cast<std::int32_t>(width) : 0);
  }
  const StateRules& rules = architecture_of(c).states;
  if (rules.interval_in_gguf) {
    whole("attention.head_count_kv", c.kv_heads);
    whole("feed_forward_length", c.feed_forward);
    whole("full_attention_interval", attention_interval(c));
  } else {
    to.set(key("attention.head_count_kv"), kv_heads);
    to.set(key("feed_forward_length"), widths);
  }
  if (rules.asks_for_rotary)
    to.set(key("rope.scaling.finetuned"), std::any_of(c.each_layer.begin(), c.each_layer.end(), [](const auto& layer) {
             return layer.has_attention() && layer.rotary;
           }));
  if (rules.mixer == MixerKind::convolution) return whole("shortconv.l_cache", s.kernel);
  whole("ssm.conv_kernel", s.kernel);
  whole("ssm.inner_size", s.value_rows());
  whole("ssm.state_size", s.key_size);
  whole("ssm.time_step_rank", s.heads);
  whole("ssm.group_count", s.key_heads);
}

/// @param next_layers behind the others, which predict further tokens
void set_config(io::GgufWriter& to, const DecoderConfig& c, const DecoderConfig& standard, std::int64_t next_layers) {
  const auto key = [&](const char* last) { return c.architecture + "." + last; };
  const auto whole = [&](const char* last, std::int64_t value) {
    to.set(key(last), static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* last, double value) { to.set(key(last), static_cast<float>(value)); };
  to.set("general.architecture", c.architecture);
  if (!c.name.empty()) to.set("general.name", c.name);
  whole("context_length", c.context);
  whole("embedding_length", c.width);
  whole("block_count", c.layers + next_layers);
  if (next_layers > 0) whole("nextn_predict_layers", next_layers);
  whole("attention.head_count", c.heads);
  const Architecture& architecture = architecture_of(c);
  const bool latent = c.latent.size > 0, sizes = architecture.sizes_by_layer;
  if (c.has_state()) {
    set_states(to, c);
  } else if (!sizes) {
    whole("feed_forward_length", c.feed_forward);
    if (!latent) whole("attention.head_count_kv", c.kv_heads);
  }
  if (!latent && !architecture.divides_still_pairs) {
    whole("attention.key_length", c.head_size);
    whole("attention.value_length", c.head_size);
  }
  whole("vocab_size", c.vocabulary);
  for (const NormKind kind : {NormKind::rms, NormKind::layer})
    if (kind == c.norm || architecture.says_epsilon_twice)
      real(kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.norm_eps);
  if (c.window > 0) whole("attention.sliding_window", c.window);
  if (c.attention_softcap != standard.attention_softcap || c.attention_softcap > 0)
    real("attn_logit_softcapping", c.attention_softcap);
  if (c.logit_softcap != standard.logit_softcap || c.logit_softcap > 0)
    real("final_logit_softcapping", c.logit_softcap);
  if (c.attention_scale > 0 && !latent) real("attention.scale", c.attention_scale);
  if (c.window > 0 && !c.each_layer.empty()) {
    to.set(key("attention.sliding_window_pattern"), windows_of(c));
  } else if (c.window > 0 && c.window_every != standard.window_every) {
    // 1 would be no layer's window in llama.cpp.
    whole("attention.sliding_window_pattern", c.window_every > 1 ? c.window_every : 0);
  }
  if (architecture.factors == GgufFactors::all) {
    real("embedding_scale", c.embedding_scale);
    real("residual_scale", c.residual_scale);
  }
  if (architecture.factors != GgufFactors::none)
    real("logit_scale", architecture.divides_logits ? 1 / c.logit_scale : c.logit_scale);
  if (architecture.says_parallel) to.set(key("use_parallel_residual"), c.parallel);
  if (const ExpertConfig& e = c.experts; e.count > 0) {
    whole("expert_count", e.count);
    whole("expert_used_count", e.chosen);
    whole("expert_feed_forward_length", e.feed_forward);
    whole("expert_gating_func", e.router == RouterKind::sigmoid ? 2 : 1);
    to.set(key("expert_weights_norm"), e.normalized);
    real("expert_weights_scale", e.scale);
    if (e.latent > 0) whole("moe_latent_size", e.latent);
    if (e.groups > 1) {
      whole("expert_group_count", e.groups);
      whole("expert_group_used_count", e.chosen_groups);
    }
    std::int64_t dense = 0;
    while (dense < c.layers && !c.layer(dense).experts) ++dense;
    whole("leading_dense_block_count", dense);
    if (e.shared > 0) {
      whole("expert_shared_count", std::max<std::int64_t>(1, e.shared / e.feed_forward));
      whole("expert_shared_feed_forward_length", e.shared);
    }
  }
  if (c.temperature.scale > 0) {
    real("attention.temperature_scale", c.temperature.scale);
    whole("attention.temperature_length", c.temperature.floor);
  }
  if (architecture.set_gguf != nullptr) architecture.set_gguf(to, c);
  if (c.positions != PositionKind::rotary) return;
  const RopeConfig& rope = c.rope;
  if (!architecture.divides_still_pairs) whole("rope.dimension_count", rope.size);
  // NTK's scaling is a larger base.
  const double size = static_cast<double>(rope.size);
  const bool ntk = rope.scaling == RopeScaling::ntk && rope.size > 2;
  real("rope.freq_base", ntk ? rope.base * std::pow(rope.factor, size / (size - 2)) : rope.base);
  if (c.window_rope_base > 0) real("rope.freq_base_swa", c.window_rope_base);
  double magnitude = c.rope_magnitude();
  if (rope.scaling == RopeScaling::linear) {
    to.set(key("rope.scaling.type"), "linear");
    real("rope.scaling.factor", rope.factor);
  } else if (rope.scaling == RopeScaling::yarn) {
    to.set(key("rope.scaling.type"), "yarn");
    real("rope.scaling.factor", rope.factor);
    whole("rope.scaling.original_context_length", c.original_context());
    real("rope.scaling.yarn_ext_factor", rope.extrapolation);
    real("rope.scaling.yarn_beta_fast", rope.beta_fast);
    real("rope.scaling.yarn_beta_slow", rope.beta_slow);
    // llama.cpp multiplies by the rule's factor where some frequencies are kept.
    if (rope.extrapolation > 0 && rope.factor > 1) magnitude /= 1 + 0.1 * std::log(rope.factor);
  } else if (rope.scaling == RopeScaling::longrope) {
    to.set(key("rope.scaling.type"), "longrope");
    whole("rope.scaling.original_context_length", c.original_context());
  }
  if (std::abs(magnitude - 1) > 1e-7 && !latent) real("rope.scaling.attn_factor", magnitude);
}

/// What makes embeddings of hidden states. @param width of these
void set_embedding(io::GgufWriter& to, const std::string& architecture, const EmbeddingSettings& settings,
                   std::int64_t width) {
  to.set(architecture + ".pooling_type", static_cast<std::uint32_t>(gguf_pooling(settings.pooling)));
  if (settings.dense.empty()) return;
  const std::size_t most = std::size(kGgufDense);
  if (settings.dense.size() != most || settings.dense.back().weight.size(0) != width)
    throw FormatError(
        fmt::format("a GGUF file cannot hold the model: it holds none or {} dense layers, whose result is "
                    "as wide as the model",
                    most));
  for (std::size_t i = 0; i < most; ++i) {
    const DenseLayer& layer = settings.dense[i];
    if (layer.bias.defined() || layer.activation != Activation::none)
      throw FormatError("a GGUF file cannot hold the model: dense layers there have neither biases nor activations");
    const std::string key = fmt::format("{}.dense_{}_feat_", architecture, i + 2);
    to.set(key + "in", static_cast<std::uint32_t>(layer.weight.size(1)));
    to.set(key + "out", static_cast<std::uint32_t>(layer.weight.size(0)));
  }
}

}  // namespace

void check_gguf_model(const Decoder& decoder, const data::Tokenizer* tokenizer) {
  (void)vocabulary_to_write(tokenizer, decoder.config.vocabulary);
  const DecoderConfig config = gguf_config(decoder.config);
  check_design(config, standard_config(config));
}

void save_gguf_model(const FilePath& path, const Decoder& decoder, const data::Tokenizer* tokenizer,
                     const quant::BlockFormat* format, const EmbeddingSettings* embedding) {
  decoder.require_whole("save_gguf_model");
  const std::optional<data::VocabularyFields> fields = vocabulary_to_write(tokenizer, decoder.config.vocabulary);
  const DecoderConfig config = gguf_config(decoder.config), standard = standard_config(config);
  check_design(config, standard);
  const GgufTensors tensors(decoder, config, format);
  io::GgufWriter to(path);
  set_config(to, config, standard, tensors.next_layers());
  if (embedding != nullptr) set_embedding(to, config.architecture, *embedding, config.width);
  set_vocabulary(to, fields);
  tensors.set_activations(to);
  tensors.declare(to);
  const std::size_t layers = embedding == nullptr ? 0 : embedding->dense.size();
  const quant::BlockFormat& plain = quant::format_named("F32");
  for (std::size_t i = 0; i < layers; ++i) to.add(kGgufDense[i], plain, embedding->dense[i].weight.shape());
  tensors.write(to);
  for (std::size_t i = 0; i < layers; ++i) to.write(kGgufDense[i], embedding->dense[i].weight);
  to.finish();
}

}  // namespace etna::models
