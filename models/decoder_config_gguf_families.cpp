#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/architecture_rows.h>
#include <etna/models/internal/config_parts.h>
#include <etna/models/internal/gguf_fields.h>

// What the metadata of GGUF files says of families with parts that few have, and what it cannot say.
namespace etna::models {
namespace {

/// The divisor by which llama.cpp keeps a pair of rope from turning.
constexpr float kStill = 1e30F;

/// Sets numbers and lists of an architecture.
class Setter {
 public:
  Setter(io::GgufWriter& to, const DecoderConfig& c) : to_(to), prefix_(c.architecture + ".") {}
  void whole(const char* key, std::int64_t value) const { to_.set(prefix_ + key, static_cast<std::uint32_t>(value)); }
  template <typename T>
  void set(const char* key, const T& value) const {
    to_.set(prefix_ + key, value);
  }

 private:
  io::GgufWriter& to_;
  std::string prefix_;
};

template <typename Value>
std::vector<std::int32_t> of_each_layer(const DecoderConfig& c, Value value) {
  std::vector<std::int32_t> list;
  for (std::int64_t i = 0; i < c.layers; ++i) list.push_back(static_cast<std::int32_t>(value(c.of_layer(i))));
  return list;
}

std::int64_t layers_that_share(const DecoderConfig& c) {
  return std::count_if(c.each_layer.begin(), c.each_layer.end(),
                       [](const LayerConfig& one) { return one.shares >= 0; });
}

/// Whether the last layers share keys as share_keys() lets them.
bool shares_as_usual(const DecoderConfig& c) {
  std::vector<LayerConfig> layers = layers_of(c);
  for (LayerConfig& one : layers) one.shares = -1;
  try {
    share_keys(layers, layers_that_share(c));
  } catch (const FormatError&) {
    return false;
  }
  for (std::int64_t i = 0; i < c.layers; ++i)
    if (layers[static_cast<std::size_t>(i)].shares != c.layer(i).shares) return false;
  return true;
}

/// The distance of the last two layers with experts, or the first one's number where there is one.
std::int64_t expert_step(const DecoderConfig& c) {
  std::int64_t before = -1, last = -1;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    if (!c.layer(i).experts) continue;
    before = last;
    last = i;
  }
  return std::max<std::int64_t>(1, last - before);
}

/// A number of every layer, from lists of the file.
void read_sizes(const GgufFields& read, const DecoderConfig& c, std::vector<LayerConfig>& layers) {
  const std::vector<std::int64_t> columns = read.by_layer("feed_forward_length", c.layers);
  const std::vector<std::int64_t> heads = read.by_layer("attention.head_count_kv", c.layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const auto& [what, value] : {std::pair{"feed_forward_length", columns[i]}, {"head_count_kv", heads[i]}})
      if (value < 1) throw FormatError(fmt::format("'{}' of layer {} is {}; it must be above 0", what, i, value));
    if (columns[i] != c.feed_forward) layers[i].feed_forward = columns[i];
    if (heads[i] != c.kv_heads) layers[i].kv_heads = heads[i];
  }
}

void read_gguf_layer_inputs(const GgufFields& read, DecoderConfig& c) {
  c.layer_inputs.size = read.integer("embedding_length_per_layer_input", 0);
  c.layer_inputs.vocabulary = c.layer_inputs.size > 0 ? c.vocabulary : 0;
}

/// The share of normal numbers below so many standard deviations.
double share_below(double deviations) { return std::erfc(-deviations / std::sqrt(2.0)) / 2; }

/// The standard deviations below which a share of normal numbers is, by bisection.
double deviations_of_share(double share) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (share_below(middle) < share ? low : high) = middle;
  }
  return low;
}

}  // namespace

void read_gguf_latent(const GgufFields& read, DecoderConfig& c) {
  // Files in which keys and values have matrices of their own describe the short row that is cached, and say the sizes
  // of heads besides.
  const bool apart = read.has("attention.key_length_mla");
  c.latent.size = read.integer("attention.kv_lora_rank");
  c.latent.query_size = read.has_tensor(0, "attn_q_a.weight") ? read.integer("attention.q_lora_rank") : 0;
  c.head_size = read.integer(apart ? "attention.key_length_mla" : "attention.key_length");
  c.latent.value_size = read.integer(apart ? "attention.value_length_mla" : "attention.value_length");
  c.rope.size = read.integer("rope.dimension_count");
  if (apart) {
    // What attention to the cached rows looks like, with one head of keys for all.
    for (const auto& [key, wanted] :
         {std::pair{"attention.key_length", c.latent.size + c.rope.size},
          std::pair{"attention.value_length", c.latent.size}, std::pair{"attention.head_count_kv", std::int64_t{1}}})
      if (const std::int64_t given = read.integer(key, wanted); given != wanted)
        throw FormatError(
            fmt::format("'{}' is {}; the other sizes of latent attention require {}", key, given, wanted));
  }
  c.kv_heads = c.heads;
  c.experts.groups_by_best = c.experts.router == RouterKind::softmax;
  const double above = 10 * read.number("rope.scaling.yarn_log_multiplier", 0);
  if (c.rope.scaling != RopeScaling::yarn || !(above > 0) || !(c.rope.factor > 1)) return;
  c.rope.attention_factor = 1;
  c.attention_scale =
      std::pow(1 + 0.1 * above * std::log(c.rope.factor), 2) / std::sqrt(static_cast<double>(c.head_size));
}

void set_gguf_latent(io::GgufWriter& to, const DecoderConfig& c) {
  const Setter set(to, c);
  set.whole("attention.head_count_kv", 1);
  set.whole("attention.kv_lora_rank", c.latent.size);
  if (c.latent.query_size > 0) set.whole("attention.q_lora_rank", c.latent.query_size);
  set.whole("attention.key_length", c.latent.size + c.rope.size);
  set.whole("attention.value_length", c.latent.size);
  set.whole("attention.key_length_mla", c.head_size);
  set.whole("attention.value_length_mla", c.latent.value_size);
  if (c.attention_scale <= 0 || c.rope.factor <= 1) return;
  const double magnitude = std::sqrt(c.attention_scale * std::sqrt(static_cast<double>(c.head_size)));
  set.set("rope.scaling.yarn_log_multiplier",
          static_cast<float>(0.1 * (magnitude - 1) / (0.1 * std::log(c.rope.factor))));
}

const char* latent_differs(const DecoderConfig& c) {
  if (c.query_bias || c.output_bias) return "set of biases";
  const bool yarn = c.rope.scaling == RopeScaling::yarn && c.rope.factor > 1;
  if (c.attention_scale > 0 ? !yarn : yarn) return "factor of scores";
  if (yarn && std::abs(c.rope_magnitude() - 1) > 1e-6) return "factor of rotated elements";
  if (c.experts.count > 0 && (c.experts.shared < 1 || c.experts.shared % c.experts.feed_forward != 0))
    return "size of the shared layer";
  return nullptr;
}

void read_gguf_places(const GgufFields& fields, DecoderConfig& c) {
  const std::string key = c.architecture + ".rope.dimension_sections";
  if (fields.file.find(key) == nullptr) return;
  const std::vector<std::int64_t> sections = fields.file.integers(key);
  if (sections.size() < 3) throw FormatError(fmt::format("'{}' has {} numbers; wanted 3 or 4", key, sections.size()));
  c.rope.pairs_by_place = {sections[1], sections[2]};
}

void set_gguf_places(io::GgufWriter& to, const DecoderConfig& c) {
  const std::int64_t lines = c.rope.pairs_by_place[0], columns = c.rope.pairs_by_place[1];
  const std::vector<std::int32_t> sections{static_cast<std::int32_t>(c.rope.size / 2 - lines - columns),
                                           static_cast<std::int32_t>(lines), static_cast<std::int32_t>(columns), 0};
  Setter(to, c).set("rope.dimension_sections", sections);
}

void set_gguf_delta(io::GgufWriter& to, const DecoderConfig& c) {
  // Positions in time, height and width, which are one for text, take turns.
  const std::int64_t pairs = c.rope.size / 2;
  const std::vector<std::int32_t> sections{static_cast<std::int32_t>((pairs + 2) / 3),
                                           static_cast<std::int32_t>((pairs + 1) / 3),
                                           static_cast<std::int32_t>(pairs / 3), 0};
  Setter(to, c).set("rope.dimension_sections", sections);
}

const char* delta_differs(const DecoderConfig& c) {
  const StateConfig& s = c.state;
  if (s.key_size != s.value_size) return "size of a state's values";
  if (s.kernel_bias || c.query_bias || c.output_bias || c.ffn_bias) return "set of biases";
  if (attention_interval(c) == 0) return "set of layers with attention";
  if (c.experts.count > 0 && c.experts.shared < 1) return "set of experts";
  for (std::int64_t i = 0; i < c.layers; ++i)
    if (c.layer(i).experts != (c.experts.count > 0)) return "set of layers with experts";
  return nullptr;
}

std::int64_t attention_interval(const DecoderConfig& c) {
  std::int64_t first = 0;
  while (first < c.layers && !c.layer(first).has_attention()) ++first;
  for (std::int64_t i = 0; i < c.layers; ++i)
    if (c.layer(i).has_attention() != ((i + 1) % (first + 1) == 0)) return 0;
  return first + 1;
}

const char* falcon_differs(const DecoderConfig& c) {
  return c.query_bias || c.output_bias || c.ffn_bias ? "set of biases" : nullptr;
}

const char* nemotron_differs(const DecoderConfig& c) {
  // With experts, llama.cpp looks for a router in all feed-forward layers.
  const auto dense = [](const LayerConfig& layer) { return layer.has_feed_forward && !layer.experts; };
  const bool mixed = c.experts.count > 0 && std::any_of(c.each_layer.begin(), c.each_layer.end(), dense);
  return mixed ? "set of layers with experts" : nullptr;
}

void read_gguf_gemma3n(const GgufFields& read, DecoderConfig& c) {
  read_gguf_layer_inputs(read, c);
  const io::GgufTensor& laurel = read.file.tensor("blk.0.laurel_l.weight");
  c.laurel_rank = laurel.shape.rank() == 2 ? laurel.shape[0] : 0;
  c.streams = {.count = read.integer("altup.num_inputs"), .active = read.integer("altup.active_idx", 0)};
  std::vector<LayerConfig> layers = layers_of(c);
  read_sizes(read, c, layers);
  share_keys(layers, read.integer("attention.shared_kv_layers", 0));
  if (read.has("activation_sparsity_scale")) {
    const std::vector<float> scales = read.file.numbers(c.architecture + ".activation_sparsity_scale");
    if (std::ssize(scales) != c.layers)
      throw FormatError(
          fmt::format("'activation_sparsity_scale' has {} numbers for {} layers", scales.size(), c.layers));
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].sparsity = share_below(static_cast<double>(scales[i]));
  }
  c.each_layer = std::move(layers);
}

void set_gguf_gemma3n(io::GgufWriter& to, const DecoderConfig& c) {
  const Setter set(to, c);
  set.whole("altup.num_inputs", c.streams.count);
  set.whole("altup.active_idx", c.streams.active);
  set.whole("embedding_length_per_layer_input", c.layer_inputs.size);
  set.whole("attention.shared_kv_layers", layers_that_share(c));
  set.set("feed_forward_length", of_each_layer(c, [](const DecoderConfig& own) { return own.feed_forward; }));
  set.set("attention.head_count_kv", of_each_layer(c, [](const DecoderConfig& own) { return own.kv_heads; }));
  std::vector<float> scales;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const double share = c.layer(i).sparsity;
    scales.push_back(share > 0 ? static_cast<float>(deviations_of_share(share))
                               : -std::numeric_limits<float>::infinity());
  }
  set.set("activation_sparsity_scale", scales);
}

const char* gemma3n_differs(const DecoderConfig& c) {
  if (c.layer_inputs.size < 1 || c.streams.count < 2 || c.laurel_rank < 1) return "set of inputs and streams";
  return shares_as_usual(c) ? nullptr : "set of layers that share keys";
}

void read_gguf_gemma4(const GgufFields& read, DecoderConfig& c) {
  read_gguf_layer_inputs(read, c);
  c.block_scales = read.has_tensor(0, "layer_output_scale.weight");
  std::vector<LayerConfig> layers = layers_of(c);
  read_sizes(read, c, layers);
  // The keys without "_swa" are of layers without a window.
  const std::int64_t whole_size = c.head_size, whole_turned = c.rope.size;
  c.head_size = read.integer("attention.key_length_swa", whole_size);
  c.rope.size = read.integer("rope.dimension_count_swa", c.head_size);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    layer.rope_size = c.rope.size;
    if (layer.window > 0) continue;
    layer.head_size = whole_size;
    layer.rope_size = whole_turned;
    layer.keys_are_values = read.has_tensor(i, "attn_k.weight") && !read.has_tensor(i, "attn_v.weight");
  }
  share_keys(layers, read.integer("attention.shared_kv_layers", 0));
  for (LayerConfig& layer : layers) layer.keys_are_values = layer.keys_are_values && layer.shares < 0;
  const std::vector<float> divisors = std::move(c.rope.divisors);
  c.rope.divisors.clear();
  const auto still = std::find_if(divisors.begin(), divisors.end(), [](float x) { return x >= 1e20F; });
  if (std::any_of(divisors.begin(), still, [](float x) { return x != 1; }) ||
      std::any_of(still, divisors.end(), [](float x) { return !(x >= 1e20F); }))
    throw FormatError("'rope_freqs.weight' has other divisors than 1, then 1e30, which do not run here");
  c.rope.turning = 1;
  if (still != divisors.end())
    c.rope.turning = static_cast<double>(still - divisors.begin()) / static_cast<double>(divisors.size());
  c.experts.beside_dense = c.experts.count > 0;
  c.experts.normalized = true;
  c.each_layer = std::move(layers);
}

void set_gguf_gemma4(io::GgufWriter& to, const DecoderConfig& c) {
  const Setter set(to, c);
  set.whole("embedding_length_per_layer_input", c.layer_inputs.size);
  set.whole("attention.shared_kv_layers", layers_that_share(c));
  set.set("feed_forward_length", of_each_layer(c, [](const DecoderConfig& own) { return own.feed_forward; }));
  set.set("attention.head_count_kv", of_each_layer(c, [](const DecoderConfig& own) { return own.kv_heads; }));
  const DecoderConfig whole = c.of_layer(c.layers - 1);
  std::int64_t windowed = 0;
  while (windowed < c.layers && !c.has_window(windowed)) ++windowed;
  const DecoderConfig local = c.of_layer(windowed < c.layers ? windowed : 0);
  for (const char* key : {"attention.key_length", "attention.value_length"}) {
    set.whole(key, whole.head_size);
    set.whole((std::string(key) + "_swa").c_str(), local.head_size);
  }
  set.whole("rope.dimension_count", whole.rope.size);
  set.whole("rope.dimension_count_swa", local.rope.size);
}

const char* gemma4_differs(const DecoderConfig& c) {
  if (c.window < 1 || c.has_window(c.layers - 1)) return "set of layers with a window";
  if (!shares_as_usual(c)) return "set of layers that share keys";
  const DecoderConfig whole = c.of_layer(c.layers - 1);
  std::int64_t head = 0;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const DecoderConfig own = c.of_layer(i);
    if (c.has_window(i) && head == 0) head = own.head_size;
    if (own.head_size != (c.has_window(i) ? head : whole.head_size) || own.rope.size != own.head_size)
      return "set of sizes of heads";
  }
  if (c.experts.count > 0 && !c.experts.beside_dense) return "kind of experts";
  return nullptr;
}

std::vector<float> divisors_of_still_pairs(const DecoderConfig& c) {
  const std::int64_t pairs = c.of_layer(c.layers - 1).rope.size / 2;
  const auto turning = static_cast<std::int64_t>(static_cast<double>(pairs) * c.rope.turning);
  std::vector<float> divisors;
  for (std::int64_t i = 0; i < pairs; ++i) divisors.push_back(i < turning ? 1.0F : kStill);
  return divisors;
}

void read_gguf_llama4(const GgufFields& read, DecoderConfig& c) {
  std::vector<LayerConfig> layers = layers_of(c);
  const bool whole = read.has("attention.sliding_window") && c.window == 0;
  c.window = 0;
  c.plain_query_key_norm = c.experts.count != kExpertsWithoutNorms;
  c.temperature = {};
  if (!whole) c.temperature = {.scale = 0.1, .floor = kLlama4Chunk, .offset = 1};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    layer.window = 0;
    layer.rotary = whole || (i + 1) % 4 != 0;
    layer.chunk = whole || !layer.rotary ? 0 : kLlama4Chunk;
    layer.temperature = !layer.rotary;
  }
  c.each_layer = std::move(layers);
}

void set_gguf_expert_step(io::GgufWriter& to, const DecoderConfig& c) {
  Setter(to, c).whole("interleave_moe_layer_step", expert_step(c));
}

const char* llama4_differs(const DecoderConfig& c) {
  const ExpertConfig& e = c.experts;
  const std::int64_t step = expert_step(c);
  if (e.count < 1 || e.shared != e.feed_forward) return "set of experts";
  if (c.plain_query_key_norm != (e.count != kExpertsWithoutNorms)) return "set of norms";
  if (c.temperature.scale != 0.1 || c.temperature.floor != kLlama4Chunk || c.temperature.offset != 1)
    return "factor of queries";
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    if (layer.experts != ((i + 1) % step == 0)) return "set of layers with experts";
    if (layer.chunk != ((i + 1) % 4 != 0 ? kLlama4Chunk : 0)) return "size of chunks of attention";
  }
  return nullptr;
}

}  // namespace etna::models
