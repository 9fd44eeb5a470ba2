#include <etna/models/decoder_config.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/config_parts.h>
#include <etna/models/internal/state_config.h>

namespace etna::models {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// Yarn's frequency of pair i turns `turns` times within the original context; the i that does, not whole.
double pair_of_turns(double turns, const RopeConfig& rope, double context) {
  return static_cast<double>(rope.size) * std::log(context / (turns * 2 * kPi)) / (2 * std::log(rope.base));
}

std::int64_t attention_parameters(const DecoderConfig& c) {
  const LatentConfig& latent = c.latent;
  std::int64_t sum = 2 * c.width * (c.query_rows() + c.kv_rows());
  if (latent.size > 0) {
    const std::int64_t q = latent.query_size, up = c.heads * (c.head_size - c.rope.size + latent.value_size);
    sum = (q > 0 ? q * (c.width + c.query_rows() + 1) : c.width * c.query_rows()) +
          c.width * (latent.size + c.rope.size) + latent.size * (up + 1) + c.width * c.value_rows();
  }
  if (c.attention_gate) sum += c.width * c.query_rows();
  if (c.query_key_norm) sum += c.norms_all_heads ? c.query_rows() + c.kv_rows() : 2 * c.head_size;
  if (c.sub_norms) sum += c.query_rows();
  if (c.query_bias && latent.size > 0) sum += latent.query_size + latent.size + c.rope.size;
  if (c.query_bias && latent.size == 0) sum += c.query_rows() * (c.attention_gate ? 2 : 1) + 2 * c.kv_rows();
  return sum + (c.output_bias ? c.width : 0);
}

std::int64_t feed_forward_parameters(const DecoderConfig& c, bool has_experts) {
  const std::int64_t matrices = (c.gated ? 3 : 2) * c.width;
  const ExpertConfig& e = c.experts;
  if (has_experts)
    return (c.gated ? 3 : 2) * c.expert_width() * e.count * e.feed_forward + matrices * e.shared +
           2 * c.width * e.latent + (e.shared_gate ? c.width : 0) + e.count * (c.width + (e.choice_bias ? 1 : 0));
  const std::int64_t biases = c.ffn_bias ? (c.gated ? 2 : 1) * c.feed_forward + c.width : 0;
  return matrices * c.feed_forward + biases + (c.sub_norms ? c.feed_forward : 0) + (c.xielu ? 2 : 0);
}

}  // namespace

LayerConfig DecoderConfig::layer(std::int64_t index) const {
  if (!each_layer.empty()) return each_layer.at(static_cast<std::size_t>(index));
  const bool windowed = window_every <= 1 || (index + 1) % window_every != 0;
  return {.window = windowed ? window : 0,
          .rotary = true,
          .temperature = temperature.scale > 0,
          .experts = experts.count > 0};
}

DecoderConfig DecoderConfig::of_layer(std::int64_t index) const {
  const LayerConfig own = layer(index);
  DecoderConfig config = *this;
  config.each_layer.clear();
  config.window = own.window;
  config.window_every = 1;
  if (own.head_size > 0) config.head_size = own.head_size;
  if (own.kv_heads > 0) config.kv_heads = own.kv_heads;
  if (own.rope_size > 0) config.rope.size = own.rope_size;
  if (own.feed_forward > 0) config.feed_forward = own.feed_forward;
  return config;
}

bool DecoderConfig::is_shared(std::int64_t index) const {
  return std::any_of(each_layer.begin(), each_layer.end(), [&](const LayerConfig& one) { return one.shares == index; });
}

bool DecoderConfig::has_attention() const {
  return each_layer.empty() || std::any_of(each_layer.begin(), each_layer.end(),
                                           [](const LayerConfig& layer) { return layer.has_attention(); });
}

bool DecoderConfig::has_state() const {
  return std::any_of(each_layer.begin(), each_layer.end(), [](const LayerConfig& layer) { return layer.has_state(); });
}

std::int64_t DecoderConfig::state_channels(MixerKind mixer) const {
  return mixer == MixerKind::convolution ? width : 2 * state.key_rows() + state.value_rows();
}

double DecoderConfig::score_scale() const {
  return attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(head_size));
}

double DecoderConfig::rope_magnitude() const {
  if (rope.attention_factor > 0) return rope.attention_factor;
  if (rope.scaling == RopeScaling::yarn) return rope.factor > 1 ? 1 + 0.1 * std::log(rope.factor) : 1;
  if (rope.scaling != RopeScaling::longrope) return 1;
  const double original = static_cast<double>(original_context());
  const double longer = rope.original_context > 0 ? static_cast<double>(context) / original : rope.factor;
  return longer > 1 && original > 1 ? std::sqrt(1 + std::log(longer) / std::log(original)) : 1;
}

const std::vector<float>& DecoderConfig::rope_divisors() const {
  if (rope.scaling != RopeScaling::longrope) return rope.divisors;
  return context > original_context() ? rope.long_divisors : rope.short_divisors;
}

std::vector<float> DecoderConfig::rope_frequencies(std::int64_t layer) const {
  const bool local = has_window_rope(layer);
  const std::int64_t pairs = rope.size / 2;
  const double original = static_cast<double>(original_context());
  const double size = static_cast<double>(rope.size);
  double base = local ? window_rope_base : rope.base;
  const RopeScaling scaling = local ? RopeScaling::none : rope.scaling;
  if (scaling == RopeScaling::ntk) base *= std::pow(rope.factor, size / (size - 2));
  double low = pair_of_turns(rope.beta_fast, rope, original), high = pair_of_turns(rope.beta_slow, rope, original);
  if (rope.whole_bounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  const std::vector<float>& divisors = rope_divisors();
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) {
    double f = std::pow(base, -2 * static_cast<double>(i) / size);
    if (scaling == RopeScaling::linear) f /= rope.factor;
    if (scaling == RopeScaling::yarn) {
      const double first = std::max(0.0, low), last = std::min(size - 1, high);
      const double ramp = (static_cast<double>(i) - first) / std::max(0.001, last - first);
      const double kept = (1 - std::min(1.0, std::max(0.0, ramp))) * rope.extrapolation;
      f = f / rope.factor * (1 - kept) + f * kept;
    }
    if (scaling == RopeScaling::llama3) {
      const double turns = original * f / (2 * kPi);
      if (turns < rope.low_frequency_factor) {
        f /= rope.factor;
      } else if (turns < rope.high_frequency_factor) {
        const double kept =
            (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
        f = (1 - kept) * f / rope.factor + kept * f;
      }
    }
    if (!local && !divisors.empty()) f /= static_cast<double>(divisors[static_cast<std::size_t>(i)]);
    if (!local && i >= static_cast<std::int64_t>(static_cast<double>(pairs) * rope.turning)) f = 0;
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

std::int64_t DecoderConfig::num_parameters() const {
  const std::int64_t tables = vocabulary * width * (tied ? 1 : 2) + (head_bias ? vocabulary : 0) +
                              (positions == PositionKind::learned ? context * width : 0);
  std::int64_t sum = tables + (norm_bias ? 2 : 1) * width + parameters_of_few(*this);
  for (std::int64_t i = 0; i < layers; ++i) {
    const LayerConfig one = layer(i);
    const std::int64_t sublayers = (one.mixer != MixerKind::none ? 1 : 0) + (one.has_feed_forward ? 1 : 0);
    const std::int64_t pre = !pre_norms ? 0 : parallel && !parallel_norms ? 1 : sublayers;
    sum += (norm_bias ? 2 : 1) * width * (pre + (post_norms ? sublayers : 0));
    if (one.has_attention()) sum += attention_parameters(*this);
    if (one.has_state()) sum += state_parameters(*this, one.mixer);
    if (one.has_feed_forward) sum += feed_forward_parameters(*this, one.experts);
  }
  return sum;
}

void DecoderConfig::check() const {
  const auto refuse = [](const std::string& what) { throw FormatError(what); };
  struct Size {
    const char* name;
    std::int64_t value, most;
    bool needed = true;  ///< else it may be 0
  };
  // No model has more; products of two of these fit in 63 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (const Size& size : {Size{"vocabulary", vocabulary, kMost},
                           {"context", context, kMost},
                           {"width", width, 1 << 20},
                           {"layers", layers, kMostLayers},
                           {"heads", heads, 1 << 14, has_attention()},
                           {"kv_heads", kv_heads, 1 << 14, has_attention()},
                           {"head_size", head_size, 1 << 14, has_attention()},
                           {"feed_forward", feed_forward, 1 << 22, has_dense_layer(*this)}}) {
    if (size.value < (size.needed ? 1 : 0) || size.value > size.most)
      refuse(fmt::format("{} is {}; it must be from 1 to {}", size.name, size.value, size.most));
  }
  check_states(*this);
  if (has_attention() && heads % kv_heads != 0)
    refuse(fmt::format("{} heads of queries cannot share {} heads of keys; the second must divide the first", heads,
                       kv_heads));
  if (!(norm_eps >= 0 && norm_eps < 1))
    refuse(fmt::format("the norm's epsilon is {}; it must be from 0 to 1", norm_eps));
  for (const auto& [what, value] :
       {std::pair{"the scale of attention", attention_scale},
        std::pair{"the cap of attention's scores", attention_softcap}, std::pair{"the cap of logits", logit_softcap},
        std::pair{"the factor of embeddings", embedding_scale}, std::pair{"the factor of logits", logit_scale},
        std::pair{"the factor of the residual stream", residual_scale},
        std::pair{"the factor of attention's input", attention_input_scale},
        std::pair{"the factor of attention's result", attention_output_scale},
        std::pair{"the factor of the gate", gate_scale}, std::pair{"the factor of the down projection", down_scale},
        std::pair{"the temperature of queries", temperature.scale}}) {
    if (!(value >= 0 && value <= 1e6)) refuse(fmt::format("{} is {}; it must be from 0 to 1e6", what, value));
  }
  if (positions == PositionKind::rotary && has_attention()) {
    if (rope.size < 2 || rope.size % 2 != 0 || rope.size > head_size) {
      refuse(fmt::format("rope turns {} elements of heads of {}; it must be an even number, 2 or more, that fits",
                         rope.size, head_size));
    }
    for (const std::int64_t pairs : rope.pairs_by_place)
      if (rope.pairs_by_place.size() != 2 || pairs < 0 || pairs > rope.size / 2)
        refuse(fmt::format("rope turns {} pairs by place; wanted two numbers from 0 to {}", pairs, rope.size / 2));
    // No model's are near these bounds, beyond which angles overflow.
    if (!(rope.base >= 1e-3 && rope.base <= 1e30))
      refuse(fmt::format("rope's base is {}; it must be above 0, and from 0.001 to 1e30", rope.base));
    if (!(window_rope_base == 0 || (window_rope_base >= 1e-3 && window_rope_base <= 1e30))) {
      refuse(fmt::format("rope's base in layers with a window is {}; it must be 0, or from 0.001 to 1e30",
                         window_rope_base));
    }
    if (!(rope.factor > 0) || !std::isfinite(rope.factor))
      refuse(fmt::format("rope's factor is {}; it must be above 0", rope.factor));
    if (!(rope.attention_factor >= 0 && rope.attention_factor <= 1e4))
      refuse(fmt::format("rope's attention factor is {}; it must be from 0 to 10000", rope.attention_factor));
    if (rope.scaling == RopeScaling::yarn && !(rope.beta_fast > 0 && rope.beta_slow > 0 && rope.base > 1)) {
      refuse(fmt::format("yarn's beta_fast is {}, its beta_slow {} and rope's base {}; wanted above 0, 0 and 1",
                         rope.beta_fast, rope.beta_slow, rope.base));
    }
    if (rope.scaling == RopeScaling::yarn && !(rope.extrapolation >= 0 && rope.extrapolation <= 1))
      refuse(fmt::format("yarn's factor of extrapolation is {}; it must be from 0 to 1", rope.extrapolation));
    if (rope.scaling == RopeScaling::longrope && rope_divisors().empty()) {
      refuse(fmt::format("rope's scaling is longrope, but its {} factors are missing",
                         context > original_context() ? "long" : "short"));
    }
    for (const std::vector<float>* list : {&rope.divisors, &rope.short_divisors, &rope.long_divisors}) {
      if (!list->empty() && static_cast<std::int64_t>(list->size()) != rope.size / 2)
        refuse(fmt::format("rope has {} divisors for {} frequencies", list->size(), rope.size / 2));
      for (const float divisor : *list)
        if (!(divisor >= 1e-6f && divisor <= 1e30f))
          refuse(fmt::format("a divisor of rope's frequencies is {}; all must be above 0, and from 1e-6 to 1e30",
                             divisor));
    }
  }
  if (window < 0 || window_every < 1) refuse(fmt::format("a window of {} in layers of {}", window, window_every));
  if (next_layers < 0 || next_layers > kMostLayers)
    refuse(fmt::format("{} layers that predict further tokens; there must be from 0 to {}", next_layers, kMostLayers));
  if (temperature.floor < 1 || temperature.offset < 0)
    refuse(fmt::format("the temperature of queries grows each {} positions from {} on; wanted at least 1 and 0",
                       temperature.floor, temperature.offset));
  if (!each_layer.empty() && std::ssize(each_layer) != layers)
    refuse(fmt::format("{} layers are described, but the model has {}", each_layer.size(), layers));
  for (const LayerConfig& one : each_layer)
    if (one.window < 0) refuse(fmt::format("a window of {} positions", one.window));
  check_parts_of_few(*this);
  if (!(qkv_limit >= 0) || (qkv_limit > 0 && (!query_key_norm || !norms_all_heads)))
    refuse(
        fmt::format("the limit of queries, keys and values is {}; it must be above 0, and behind norms of all heads "
                    "together, as OLMoE has it",
                    qkv_limit));
  if (head_bias && logit_scale != 1) refuse("a head with biases has no factor of logits");
  if (!pre_norms && (parallel || !post_norms)) refuse("blocks without norms in front need norms behind each sublayer");
  if (parallel && post_norms) refuse("parallel blocks have no norms behind their sublayers");
  if (experts.count != 0) {
    const ExpertConfig& e = experts;
    struct Range {
      const char* what;
      std::int64_t value, least, most;
    };
    for (const auto& [what, value, least, most] :
         {Range{"the number of experts", e.count, 1, std::int64_t{1} << 14},
          Range{"the number of chosen experts", e.chosen, 1, std::min<std::int64_t>(e.count, 64)},
          Range{"the width of an expert", e.feed_forward, 1, std::int64_t{1} << 22},
          Range{"the width of the shared expert", e.shared, 0, std::int64_t{1} << 22},
          Range{"the size of rows of experts", e.latent, 0, std::int64_t{1} << 22},
          Range{"the number of groups of experts", e.groups, 1, e.count},
          Range{"the number of chosen groups", e.chosen_groups, 1, e.groups}}) {
      if (value < least || value > most)
        refuse(fmt::format("{} is {}; it must be from {} to {}", what, value, least, most));
    }
    if (e.count % e.groups != 0 || (e.groups > 1 && e.count / e.groups < 2))
      refuse(fmt::format("{} experts are not {} groups of two or more", e.count, e.groups));
    if (e.chosen > e.count / e.groups * e.chosen_groups)
      refuse(fmt::format("{} experts cannot be chosen from {} groups of {}", e.chosen, e.chosen_groups,
                         e.count / e.groups));
    if (!(e.scale > 0 && e.scale <= 1e6) || !(e.jitter >= 0 && e.jitter < 1))
      refuse(fmt::format("the factor of experts is {}, the router's jitter {}; wanted above 0, and from 0 to 1",
                         e.scale, e.jitter));
    if (e.router == RouterKind::sparsemixer && (e.chosen != 2 || e.groups > 1))
      refuse(fmt::format("sparsemixer chooses two experts of all, not {} in {} groups", e.chosen, e.groups));
    if (sub_norms || (ffn_bias && !e.bias) || xielu)
      refuse("experts are feed-forward layers without norms, and with biases of all or none");
    if (e.latent > 0 && (e.beside_dense || e.bias))
      refuse("experts with rows of their own size are beside no other layer, and have no biases");
  }
  if (latent.size != 0) {
    if (latent.size < 0 || latent.size > 1 << 20 || latent.query_size < 0 || latent.query_size > 1 << 20 ||
        latent.value_size < 1 || latent.value_size > head_size)
      refuse(
          fmt::format("latent attention with rows of {} and {} elements and values of {}; wanted at most 2^20, and "
                      "from 1 to {}",
                      latent.size, latent.query_size, latent.value_size, head_size));
    if (kv_heads != heads || query_key_norm || packed_qkv || sub_norms || rope.size >= head_size)
      refuse("latent attention has as many heads of keys as of queries, and no norms of heads");
  }
  if (attention_gate && (latent.size > 0 || packed_qkv || sub_norms))
    refuse("attention with a gate has projections of its own for queries, keys and values");
  const bool chunks =
      std::any_of(each_layer.begin(), each_layer.end(), [](const LayerConfig& layer) { return layer.chunk > 0; });
  if (bidirectional && (has_state() || chunks || sinks))
    refuse("attention in both directions goes without chunks, sinks and layers that keep a state");
  if (xielu && (gated || sub_norms)) refuse("xIELU is the activation of plain feed-forward layers");
  if (packed_qkv && positions == PositionKind::rotary)
    refuse("queries, keys and values of rotary positions cannot be one projection; set packed_qkv to false");
  if (!(dropout >= 0 && dropout <= 1)) refuse(fmt::format("dropout is {}; it must be from 0 to 1", dropout));
}

DecoderConfig decoder_config(std::string_view architecture, const DecoderOptions& options) {
  DecoderConfig c;
  const Architecture& row = require_architecture(architecture);
  if (row.states.there())
    throw FormatError(fmt::format(
        "the sizes of '{}', whose layers keep a state, do not follow from its name; read a config.json", architecture));
  row.apply(c);
  c.architecture = architecture;
  c.vocabulary = options.vocabulary;
  c.context = options.context;
  c.width = options.width;
  c.layers = options.layers;
  c.heads = options.heads;
  c.feed_forward = options.feed_forward;
  c.dropout = options.dropout;
  c.recompute_blocks = options.recompute_blocks;
  c.rope.interleaved = row.neighbours_in_hugging_face;
  fill_defaults(c);
  set_layers(c);
  return c;
}

}  // namespace etna::models
