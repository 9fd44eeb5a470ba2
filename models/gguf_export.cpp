#include <etna/models/model_file.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/gguf_vocabulary.h>
#include <etna/models/internal/head_order.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/internal/weight_names.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// A tensor of the file: its rows in order, from one or several layers.
struct Part {
  std::string name;
  const quant::BlockFormat* format = nullptr;
  Shape shape;
  std::function<void(io::GgufWriter& to)> write;
};

const quant::BlockFormat& format_for(const quant::BlockFormat& own, const quant::BlockFormat* wanted,
                                     const Shape& shape) {
  if (wanted == nullptr) return own;
  return io::gguf_can_hold(*wanted, shape) ? *wanted : quant::format_named("F16");
}

class Exporter {
 public:
  Exporter(const Decoder& decoder, const quant::BlockFormat* format) : decoder_(decoder), format_(format) {
    const DecoderConfig& c = decoder.config;
    reorder_ = architecture_of(c).neighbours_in_gguf && !c.rope.interleaved;
    matrix("token_embedding", {&decoder.token_embedding});
    if (decoder.position_embedding) {
      // llama.cpp adds this table row by row and wants it whole.
      vector("position_embd.weight", decoder.position_embedding->blocks());
    }
    norm("norm", decoder.norm);
    if (decoder.output) matrix("output", {decoder.output.get()});
    if (decoder.output) bias("output", {decoder.output.get()});
    for (std::size_t i = 0; i < decoder.blocks.size(); ++i) block(fmt::format("blocks.{}.", i), decoder.blocks[i]);
    if (c.positions == PositionKind::rotary) divisors();
  }

  /// The parameters of xIELU, which llama.cpp reads from the metadata.
  void set_activations(io::GgufWriter& to) const {
    if (!decoder_.config.xielu) return;
    for (const auto& [key, value] : {std::pair{"xielu.alpha_p", &Xielu::alpha_p},
                                     {"xielu.alpha_n", &Xielu::alpha_n},
                                     {"xielu.beta", &Xielu::beta},
                                     {"xielu.eps", &Xielu::eps}}) {
      std::vector<float> each;
      for (const DecoderBlock& block : decoder_.blocks)
        each.push_back((block.ffn->xielu.get()->*value).detach().item<float>());
      to.set(key, each);
    }
  }
  void declare(io::GgufWriter& to) const {
    for (const Part& part : parts_) to.add(part.name, *part.format, part.shape);
  }
  void write(io::GgufWriter& to) const {
    for (const Part& part : parts_) part.write(to);
  }

 private:
  void block(const std::string& name, const DecoderBlock& b) {
    // llama.cpp reads these in one tensor only.
    const Architecture& architecture = architecture_of(decoder_.config);
    const bool both = architecture.packs_gate(), packed = architecture.packs_qkv();
    const std::string prefix = "blk." + name.substr(7);
    if (b.attention) attention(name, prefix, *b.attention, packed);
    if (b.mamba) mamba(name, *b.mamba);
    if (b.convolution) convolution(name, *b.convolution);
    for (const auto& [part, n] : {std::pair<const char*, const Norm*>{"attention_norm", b.attention_norm.get()},
                                  {"attention_post_norm", b.attention_post_norm.get()},
                                  {"ffn_norm", b.ffn_norm.get()},
                                  {"ffn_post_norm", b.ffn_post_norm.get()}})
      if (n != nullptr) norm(name + part, *n);
    if (!b.ffn) return;
    if (b.ffn->sub_norm) norm(name + "ffn.sub_norm", *b.ffn->sub_norm);
    if (b.ffn->router) return experts(name, *b.ffn);
    if (both) matrix(prefix + "ffn_up", {b.ffn->gate.get(), &b.ffn->up}, true);
    for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"ffn.gate", b.ffn->gate.get()},
                                      {"ffn.up", &b.ffn->up},
                                      {"ffn.down", &b.ffn->down}}) {
      if (layer == nullptr || (both && layer != &b.ffn->down)) continue;
      matrix(name + part, {layer});
      bias(name + part, {layer});
    }
  }

  void attention(const std::string& name, const std::string& prefix, const DecoderAttention& a, bool packed) {
    if (a.qkv || packed) {
      const std::vector<const Projection*> all =
          a.qkv ? std::vector<const Projection*>{a.qkv.get()}
                : std::vector<const Projection*>{a.query.get(), a.key.get(), a.value.get()};
      matrix(prefix + "attn_qkv", all, true);
      bias(prefix + "attn_qkv", all, true);
    } else {
      for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"query", a.query.get()},
                                        {"key", a.key.get()},
                                        {"value", a.value.get()}}) {
        matrix(name + "attention." + part, {layer});
        bias(name + "attention." + part, {layer});
      }
    }
    if (a.sinks.defined()) plain(gguf_name(decoder_.config, name + "attention.sinks"), a.sinks);
    matrix(name + "attention.output", {&a.output});
    bias(name + "attention.output", {&a.output});
    for (const auto& [part, n] : {std::pair<const char*, const Norm*>{"query_norm", a.query_norm.get()},
                                  {"key_norm", a.key_norm.get()},
                                  {"sub_norm", a.sub_norm.get()}})
      if (n != nullptr) norm(name + "attention." + part, *n);
  }

  /// llama.cpp has a dimension of 1 in front of what a head has one number of.
  void mamba(const std::string& name, const MambaMixer& m) {
    const StateConfig& s = decoder_.config.state;
    matrix(name + "mamba.input", {&m.input});
    plain(file_name(name + "mamba.kernel", ".weight"), m.kernel.weight);
    if (m.kernel.bias.defined()) plain(file_name(name + "mamba.kernel", ".bias"), m.kernel.bias);
    plain(file_name(name + "mamba", ".step_bias"), m.step_bias);
    plain(file_name(name + "mamba", ".log_decay"), -exp(m.log_decay.detach().to(kCPU, f32)).unsqueeze(1));
    plain(file_name(name + "mamba", ".skip"), m.skip.detach().unsqueeze(1));
    if (m.norm) plain(file_name(name + "mamba.norm", ".weight"), m.norm->weight.detach().reshape({s.key_heads, -1}));
    matrix(name + "mamba.output", {&m.output});
  }

  void convolution(const std::string& name, const ConvolutionMixer& c) {
    matrix(name + "convolution.input", {&c.input});
    plain(file_name(name + "convolution.kernel", ".weight"), c.kernel.weight);
    matrix(name + "convolution.output", {&c.output});
  }

  void experts(const std::string& name, const DecoderFeedForward& ffn) {
    const std::int64_t count = ffn.router->logits.out;
    vector(file_name(name + "ffn.router.logits", ".weight"), ffn.router->logits.blocks());
    bias(name + "ffn.router.logits", {&ffn.router->logits});
    if (ffn.router->choice_bias.defined())
      plain(file_name(name + "ffn.router", ".choice_bias"), ffn.router->choice_bias);
    for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"ffn.gate", ffn.gate.get()},
                                      {"ffn.up", &ffn.up},
                                      {"ffn.down", &ffn.down}}) {
      matrix(name + part, {layer}, false, count);
      if (layer->bias.defined())
        plain(file_name(name + part, ".bias"), layer->bias.reshape({count, layer->out / count}));
    }
    if (!ffn.shared) return;
    for (const auto& [part, layer] : {std::pair<const char*, const Projection*>{"gate", ffn.shared->gate.get()},
                                      {"up", &ffn.shared->up},
                                      {"down", &ffn.shared->down}})
      matrix(name + "ffn.shared." + part, {layer});
  }

  std::string file_name(const std::string& name, const char* kind, bool is_file_name = false) const {
    return is_file_name ? name + kind : gguf_name(decoder_.config, name + kind);
  }

  /// @param experts whose matrices are one below the other; llama.cpp has a dimension for them
  void matrix(const std::string& name, std::vector<const Projection*> layers, bool is_file_name = false,
              std::int64_t experts = 0) {
    for (const Projection* layer : layers)
      if (layer->has_adapter()) throw FormatError("a decoder with adapters cannot be written; merge them first");
    std::int64_t rows = 0;
    for (const Projection* layer : layers) rows += layer->out;
    const std::int64_t columns = layers[0]->in, head = decoder_.config.head_size;
    const QuantizedTensor first = layers[0]->blocks();
    const Shape shape = experts > 0 ? Shape{experts, rows / experts, columns} : Shape{rows, columns};
    const quant::BlockFormat& format = format_for(first.format(), format_, shape);
    const std::string to_name = file_name(name, ".weight", is_file_name);
    const bool turn = reorder_ && (name.ends_with(".query") || name.ends_with(".key"));
    parts_.push_back({to_name, &format, shape, [=, &format](io::GgufWriter& to) {
                        std::vector<Tensor> all;
                        for (const Projection* layer : layers) {
                          const QuantizedTensor blocks = layer->blocks().to(kCPU);
                          if (layers.size() == 1 && !turn && &blocks.format() == &format) {
                            const Tensor& bytes = blocks.blocks();
                            to.write(to_name, {reinterpret_cast<const std::byte*>(bytes.data<std::uint8_t>()),
                                               static_cast<std::size_t>(bytes.numel())});
                            return;
                          }
                          const Tensor values = dequantize(blocks);
                          all.push_back(turn ? with_neighbours(values, head) : values);
                        }
                        to.write(to_name, (all.size() == 1 ? all[0] : cat(all)).reshape(shape));
                      }});
  }
  void vector(const std::string& name, const QuantizedTensor& table) {
    parts_.push_back({name, &quant::format_named("F32"), table.shape(),
                      [=](io::GgufWriter& to) { to.write(name, dequantize(table.to(kCPU))); }});
  }
  void plain(const std::string& name, const Tensor& values) {
    parts_.push_back({name, &quant::format_named("F32"), values.shape(),
                      [=](io::GgufWriter& to) { to.write(name, values.detach().to(kCPU, f32)); }});
  }
  void bias(const std::string& name, std::vector<const Projection*> layers, bool is_file_name = false) {
    std::vector<Tensor> all;
    for (const Projection* layer : layers) {
      if (!layer->bias.defined()) return;
      const bool turn = reorder_ && (name.ends_with(".query") || name.ends_with(".key"));
      const Tensor values = layer->bias.detach().to(kCPU, f32);
      all.push_back(turn ? with_neighbours(values.unsqueeze(1), decoder_.config.head_size).squeeze(1) : values);
    }
    plain(file_name(name, ".bias", is_file_name), all.size() == 1 ? all[0] : cat(all));
  }
  void norm(const std::string& name, const Norm& norm) {
    plain(file_name(name, ".weight"), norm.weight);
    if (norm.bias.defined()) plain(file_name(name, ".bias"), norm.bias);
  }
  void divisors() {
    const RopeConfig& rope = decoder_.config.rope;
    const auto list = [&](const char* name, const std::vector<float>& values) {
      if (!values.empty()) plain(name, from_vector(values));
    };
    if (rope.scaling == RopeScaling::longrope) {
      list("rope_factors_short.weight", rope.short_divisors);
      list("rope_factors_long.weight", rope.long_divisors);
      return;
    }
    if (rope.scaling != RopeScaling::llama3) return list("rope_freqs.weight", rope.divisors);
    DecoderConfig everywhere = decoder_.config;
    everywhere.window_rope_base = 0;
    std::vector<float> divisors = everywhere.rope_frequencies(0);
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      const double plain = std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(rope.size));
      divisors[i] = static_cast<float>(plain / static_cast<double>(divisors[i]));
    }
    list("rope_freqs.weight", divisors);
  }

  const Decoder& decoder_;
  const quant::BlockFormat* format_;
  bool reorder_ = false;
  std::vector<Part> parts_;
};

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
  for (const auto& [what, same] :
       {std::pair{"activation", c.xielu == standard.xielu && kind(c.activation) == kind(standard.activation)},
        {"feed-forward layer", c.gated == standard.gated},
        {"set of norms", c.norm == standard.norm && c.norm_bias == standard.norm_bias &&
                             c.pre_norms == standard.pre_norms && c.post_norms == standard.post_norms &&
                             c.sub_norms == standard.sub_norms && c.norms_all_heads == standard.norms_all_heads},
        {"order of layers", architecture.says_parallel || c.parallel == standard.parallel},
        {"set of rotated layers", !rotary || c.has_state() || rotates_alike(c, standard)},
        {"kind of positions", c.positions == standard.positions},
        {"order of rotated pairs",
         !rotary || c.rope.interleaved == standard.rope.interleaved || (turns && c.rope.size == c.head_size)},
        {"set of pairs that YaRN keeps",
         c.rope.scaling != RopeScaling::yarn || c.rope.whole_bounds == standard.rope.whole_bounds},
        {"factor of embeddings",
         architecture.factors == GgufFactors::all || c.embedding_scale == standard.embedding_scale},
        {"factor of the residual stream", architecture.factors == GgufFactors::all || c.residual_scale == 1},
        {"factor of logits", architecture.factors != GgufFactors::none || c.logit_scale == 1},
        {"kind of attention", !architecture.only_hugging_face && c.sinks == standard.sinks},
        {"kind of experts", c.experts.limit == standard.experts.limit && c.experts.bias == standard.experts.bias},
        {"set of layers with experts",
         c.experts.count == 0 || !architecture.experts.dense_first.empty() || c.layer(0).experts},
        {"factor of experts", c.experts.count == 0 || architecture.experts.scaled ||
                                  (c.experts.normalized == standard.experts.normalized && c.experts.scale == 1)},
        {"set of biases", !c.has_state() || (!state.input_bias && !state.output_bias)},
        {"kind of experts", !c.has_state() || c.experts.count == 0 || c.gated},
        {"norm behind a state", !c.has_state() || !state.norm || c.state.key_heads <= 1 ||
                                    (!state.norm_before_gate && state.norm_groups == state.key_heads)},
        {"limit of steps of time",
         state.least_step == (architecture.states.least_step ? 0.001 : 0) && state.largest_step >= 1e30},
        {"factor of queries", architecture.scales_queries || c.temperature.scale == 0}}) {
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
    widths.push_back(layer.has_feed_forward ? static_cast<std::int32_t>(c.feed_forward) : 0);
  }
  to.set(key("attention.head_count_kv"), kv_heads);
  to.set(key("feed_forward_length"), widths);
  const StateRules& rules = architecture_of(c).states;
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

void set_config(io::GgufWriter& to, const DecoderConfig& c, const DecoderConfig& standard) {
  const auto key = [&](const char* last) { return c.architecture + "." + last; };
  const auto whole = [&](const char* last, std::int64_t value) {
    to.set(key(last), static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* last, double value) { to.set(key(last), static_cast<float>(value)); };
  to.set("general.architecture", c.architecture);
  if (!c.name.empty()) to.set("general.name", c.name);
  whole("context_length", c.context);
  whole("embedding_length", c.width);
  whole("block_count", c.layers);
  whole("attention.head_count", c.heads);
  if (c.has_state()) {
    set_states(to, c);
  } else {
    whole("feed_forward_length", c.feed_forward);
    whole("attention.head_count_kv", c.kv_heads);
  }
  whole("attention.key_length", c.head_size);
  whole("attention.value_length", c.head_size);
  whole("vocab_size", c.vocabulary);
  real(c.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.norm_eps);
  if (c.window > 0) whole("attention.sliding_window", c.window);
  if (c.attention_softcap != standard.attention_softcap || c.attention_softcap > 0)
    real("attn_logit_softcapping", c.attention_softcap);
  if (c.logit_softcap != standard.logit_softcap || c.logit_softcap > 0)
    real("final_logit_softcapping", c.logit_softcap);
  if (c.attention_scale > 0) real("attention.scale", c.attention_scale);
  if (c.window > 0 && !c.each_layer.empty()) {
    to.set(key("attention.sliding_window_pattern"), windows_of(c));
  } else if (c.window > 0 && c.window_every != standard.window_every) {
    whole("attention.sliding_window_pattern", c.window_every);
  }
  const Architecture& architecture = architecture_of(c);
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
  if (c.positions != PositionKind::rotary) return;
  const RopeConfig& rope = c.rope;
  whole("rope.dimension_count", rope.size);
  // NTK's scaling is a larger base.
  const double size = static_cast<double>(rope.size);
  const bool ntk = rope.scaling == RopeScaling::ntk && rope.size > 2;
  real("rope.freq_base", ntk ? rope.base * std::pow(rope.factor, size / (size - 2)) : rope.base);
  if (c.window_rope_base != standard.window_rope_base) real("rope.freq_base_swa", c.window_rope_base);
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
  if (std::abs(magnitude - 1) > 1e-7) real("rope.scaling.attn_factor", magnitude);
}

}  // namespace

void save_gguf_model(const FilePath& path, const Decoder& decoder, const data::Tokenizer* tokenizer,
                     const quant::BlockFormat* format) {
  decoder.require_whole("save_gguf_model");
  const std::optional<data::VocabularyFields> fields = vocabulary_to_write(tokenizer, decoder.config.vocabulary);
  const DecoderConfig standard = standard_config(decoder.config);
  check_design(decoder.config, standard);
  const Exporter exporter(decoder, format);
  io::GgufWriter to(path);
  set_config(to, decoder.config, standard);
  set_vocabulary(to, fields);
  exporter.set_activations(to);
  exporter.declare(to);
  exporter.write(to);
  to.finish();
}

}  // namespace etna::models
