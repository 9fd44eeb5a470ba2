#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/config_parts.h>

// Parts that few decoders have: sizes of layers, shared keys, inputs of blocks, streams, experts with biases.
namespace etna::models {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw FormatError(what); }

/// Weights of attention's projections and norms of heads.
std::int64_t attention_of(const DecoderConfig& c, bool has_keys, bool has_values) {
  const std::int64_t keys = has_keys ? c.kv_rows() : 0, values = has_values ? c.kv_rows() : 0;
  const std::int64_t norms = c.query_key_norm && !c.norms_all_heads ? (has_keys ? 2 : 1) * c.head_size : 0;
  const std::int64_t biases = c.query_bias ? c.query_rows() + keys + values : 0;
  return c.width * (2 * c.query_rows() + keys + values) + norms + biases;
}

/// What a layer has more than one of a model without differences.
std::int64_t difference_of(const DecoderConfig& c, std::int64_t index) {
  const LayerConfig layer = c.layer(index);
  const DecoderConfig own = c.of_layer(index);
  const std::int64_t matrices = (c.gated ? 3 : 2) * c.width;
  std::int64_t count =
      attention_of(own, layer.shares < 0, layer.shares < 0 && !layer.keys_are_values) - attention_of(c, true, true);
  if (!layer.experts || c.experts.beside_dense) count += matrices * (own.feed_forward - c.feed_forward);
  if (layer.experts && c.experts.beside_dense)
    count += matrices * c.feed_forward + 4 * c.width + c.experts.count;  // three norms, factors of the router
  return count;
}

void check_layer(const DecoderConfig& c, std::int64_t index) {
  const LayerConfig layer = c.layer(index);
  const DecoderConfig own = c.of_layer(index);
  const auto within = [&](const char* what, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      refuse(fmt::format("{} of layer {} is {}; it must be from 1 to {}", what, index, value, most));
  };
  within("head_size", own.head_size, 1 << 14);
  within("kv_heads", own.kv_heads, c.heads);
  within("feed_forward", own.feed_forward, 1 << 22);
  if (c.heads % own.kv_heads != 0)
    refuse(
        fmt::format("layer {} has {} heads of keys, which do not divide {} of queries", index, own.kv_heads, c.heads));
  if (c.positions == PositionKind::rotary && layer.rotary &&
      (own.rope.size < 2 || own.rope.size % 2 != 0 || own.rope.size > own.head_size))
    refuse(fmt::format("rope turns {} elements of heads of {} in layer {}; it must be an even number that fits",
                       own.rope.size, own.head_size, index));
  if (layer.chunk < 0 || (layer.chunk > 0 && layer.window > 0))
    refuse(fmt::format("layer {} has chunks of {} positions and a window of {}; wanted one of them, or 0", index,
                       layer.chunk, layer.window));
  if (!(layer.sparsity >= 0 && layer.sparsity < 1) || (layer.sparsity > 0 && !c.gated))
    refuse(fmt::format("the sparsity of layer {} is {}; it must be from 0 to below 1, of a gated layer", index,
                       layer.sparsity));
  if (layer.shares < 0) return;
  if (layer.shares >= index || c.layer(layer.shares).shares >= 0)
    refuse(fmt::format("layer {} cannot attend to keys of layer {}; wanted an earlier one with keys of its own", index,
                       layer.shares));
  const DecoderConfig source = c.of_layer(layer.shares);
  if (source.head_size != own.head_size || source.kv_heads != own.kv_heads)
    refuse(fmt::format("layer {} has {} heads of {} elements and layer {}, whose keys it attends to, {} of {}", index,
                       own.kv_heads, own.head_size, layer.shares, source.kv_heads, source.head_size));
}

bool differs(const LayerConfig& one) {
  return one.head_size > 0 || one.kv_heads > 0 || one.rope_size > 0 || one.feed_forward > 0 || one.shares >= 0 ||
         one.keys_are_values || one.sparsity > 0 || one.chunk > 0;
}

bool any_differs(const DecoderConfig& c) { return std::any_of(c.each_layer.begin(), c.each_layer.end(), differs); }

}  // namespace

std::vector<LayerConfig> layers_of(const DecoderConfig& c) {
  if (c.layers < 1 || c.layers > kMostLayers)
    refuse(fmt::format("there are {} layers; wanted from 1 to {}", c.layers, kMostLayers));
  std::vector<LayerConfig> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) layers.push_back(c.layer(i));
  return layers;
}

void share_keys(std::vector<LayerConfig>& layers, std::int64_t count) {
  const auto first = std::ssize(layers) - count;
  if (count < 0 || first < 0) refuse(fmt::format("{} layers of {} share keys of earlier ones", count, layers.size()));
  for (std::int64_t i = first; first > 0 && i < std::ssize(layers); ++i) {
    LayerConfig& own = layers[static_cast<std::size_t>(i)];
    for (std::int64_t before = 0; before < first; ++before)
      if ((layers[static_cast<std::size_t>(before)].window > 0) == (own.window > 0)) own.shares = before;
    if (own.shares < 0) refuse(fmt::format("layer {} shares keys, but no layer before {} is of its kind", i, first));
  }
}

std::int64_t parameters_of_few(const DecoderConfig& c) {
  std::int64_t count = 0;
  if (any_differs(c) || c.experts.beside_dense)
    for (std::int64_t i = 0; i < c.layers; ++i) count += difference_of(c, i);
  const ExpertConfig& e = c.experts;
  if (e.bias)
    for (std::int64_t i = 0; i < c.layers; ++i)
      count += c.layer(i).experts ? e.count * (1 + 2 * e.feed_forward + c.width) : 0;
  if (c.sinks) count += c.layers * c.heads;
  if (c.block_scales) count += c.layers;
  if (c.laurel_rank > 0) count += c.layers * c.width * (2 * c.laurel_rank + 1);
  if (const std::int64_t size = c.layer_inputs.size; size > 0)
    count += size * c.layers * (c.layer_inputs.vocabulary + c.width) + size + c.layers * c.width * (2 * size + 1);
  if (const std::int64_t n = c.streams.count; n > 1)
    count += 2 * (n - 1) * c.width * c.width + c.layers * (c.width * (n + 2) + n * n * (n + 1));
  return count;
}

void check_parts_of_few(const DecoderConfig& c) {
  if (!(c.rope.turning > 0 && c.rope.turning <= 1))
    refuse(fmt::format("the share of rope's pairs that turn is {}; it must be above 0, and at most 1", c.rope.turning));
  const LayerInputConfig& inputs = c.layer_inputs;
  if (inputs.size < 0 || inputs.size > 1 << 16 || (inputs.size > 0 && inputs.vocabulary < 1) || inputs.vocabulary < 0 ||
      inputs.vocabulary > std::int64_t{1} << 30)
    refuse(fmt::format(
        "inputs of blocks have {} elements and a table of {} rows; wanted at most 65536, and from 1 to 2^30",
        inputs.size, inputs.vocabulary));
  const StreamConfig& streams = c.streams;
  if (streams.count < 1 || streams.count > 64 || streams.active < 0 || streams.active >= streams.count)
    refuse(fmt::format("blocks compute stream {} of {}; wanted from 1 to 64 of them", streams.active, streams.count));
  if (streams.count > 1 && inputs.size == 0) refuse("several streams need inputs of blocks, by which they differ");
  if (!(streams.coefficient_limit >= 0)) refuse("the limit of coefficients of streams is below 0");
  if (c.laurel_rank < 0 || c.laurel_rank > 1 << 16)
    refuse(fmt::format("the rank of the layer beside attention is {}; it must be from 0 to 65536", c.laurel_rank));
  if (c.parallel && (c.laurel_rank > 0 || c.experts.beside_dense))
    refuse("parallel blocks have no layers beside attention and the feed-forward layer");
  if (c.sinks && c.packed_qkv) refuse("attention with sinks has a projection for each of queries, keys and values");
  if (c.plain_query_key_norm && (c.query_key_norm || c.packed_qkv || c.rope_magnitude() != 1))
    refuse("norms of queries and keys without weights go with neither other ones, one projection for all, nor yarn");
  if (c.value_norm && (c.packed_qkv || c.latent.size > 0))
    refuse("norms of values go with neither one projection for all nor latent attention");
  if (!(c.experts.limit >= 0 && c.experts.limit <= 1e6))
    refuse(fmt::format("the limit of experts' gates is {}; it must be from 0 to 1e6", c.experts.limit));
  if (!any_differs(c)) return;
  if (c.latent.size > 0 || c.packed_qkv || c.norms_all_heads || c.sub_norms)
    refuse("layers of different sizes go with neither latent attention, packed projections nor norms of all heads");
  for (std::int64_t i = 0; i < c.layers; ++i) check_layer(c, i);
}

void require_divisible(const DecoderConfig& c) {
  if (any_differs(c) || c.layer_inputs.size > 0 || c.sinks || c.plain_query_key_norm)
    refuse(fmt::format("models of '{}' cannot be divided over ranks; run it on one device", c.architecture));
}

}  // namespace etna::models
