#include <etna/models/internal/model_split.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/dist/dist.h>
#include <etna/models/internal/config_parts.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// Numbers of ranks that an error lists.
constexpr int kMostListed = 64;

/// The rank's share of units of `unit` elements; empty where there are fewer units than ranks.
PartRange share_of(std::int64_t elements, std::int64_t unit, const ModelSplit& split) {
  const std::int64_t units = elements / unit;
  if (units < split.ranks) return {};
  const std::int64_t first = units * split.rank / split.ranks, last = units * (split.rank + 1) / split.ranks;
  return {first * unit, (last - first) * unit};
}

/// Rows of the vocabulary that each rank has but for the last ones, which may have fewer.
std::int64_t vocabulary_share(const DecoderConfig& config, const ModelSplit& split) {
  return (config.vocabulary + split.ranks - 1) / split.ranks;
}

/// Empty ranges where something cannot be divided.
DecoderPart try_part(const DecoderConfig& config, const ModelSplit& split) {
  DecoderPart part;
  const std::int64_t ranks = split.ranks, group = config.heads / config.kv_heads, rows = group * config.head_size;
  if (config.kv_heads >= ranks) {
    part.kv_heads = share_of(config.kv_heads, split.block / std::gcd(rows, split.block), split);
    part.heads = {part.kv_heads.begin * group, part.kv_heads.size * group};
  } else if (ranks % config.kv_heads == 0 && config.heads % ranks == 0 &&
             config.heads / ranks * config.head_size % split.block == 0) {
    part.kv_heads = {split.rank * config.kv_heads / ranks, 1};
    part.heads = share_of(config.heads, 1, split);
  }
  part.feed_forward = share_of(config.feed_forward, std::gcd(config.feed_forward, split.block), split);
  const std::int64_t share = vocabulary_share(config, split), begin = std::min(config.vocabulary, split.rank * share);
  if ((ranks - 1) * share < config.vocabulary) part.vocabulary = {begin, std::min(share, config.vocabulary - begin)};
  return part;
}

bool is_there(const DecoderPart& part) {
  return part.heads.size > 0 && part.feed_forward.size > 0 && part.vocabulary.size > 0;
}

[[noreturn]] void refuse(const DecoderConfig& config, const ModelSplit& split, const DecoderPart& part) {
  std::vector<int> counts;
  for (int n = 2; n <= kMostListed; ++n)
    if (is_there(try_part(config, {0, n, split.block}))) counts.push_back(n);
  const std::string blocks =
      split.block > 1 ? fmt::format(", whose weights are in blocks of {}", split.block) : std::string();
  const std::string what = part.heads.size == 0 ? fmt::format("{} heads of {} elements, {} of them with keys{},",
                                                              config.heads, config.head_size, config.kv_heads, blocks)
                           : part.feed_forward.size == 0
                               ? fmt::format("a feed-forward layer of {} columns{},", config.feed_forward, blocks)
                               : fmt::format("a vocabulary of {} tokens", config.vocabulary);
  throw FormatError(
      fmt::format("a model with {} cannot be divided over {} ranks; {}", what, split.ranks,
                  counts.empty() ? "it runs on one only" : fmt::format("it can over {}", fmt::join(counts, ", "))));
}

void require_group_of(const ModelSplit& split) {
  if (distributed::size() == split.ranks && distributed::rank() == split.rank) return;
  throw Error(
      fmt::format("Decoder: this is part {} of {} of a model, in rank {} of a group of {}; load the part of "
                  "this rank, after distributed::init()",
                  split.rank, split.ranks, distributed::rank(), distributed::size()));
}

}  // namespace

DecoderPart decoder_part(const DecoderConfig& config, const ModelSplit& split) {
  if (split.ranks < 1 || split.rank < 0 || split.rank >= split.ranks || split.block < 1)
    throw Error(fmt::format("rank {} of {} ranks, in blocks of {}: there is no such part of a model", split.rank,
                            split.ranks, split.block));
  config.check();
  if (!split.is_split())
    return {{0, config.heads}, {0, config.kv_heads}, {0, config.feed_forward}, {0, config.vocabulary}};
  if (config.sub_norms || config.norms_all_heads)
    throw FormatError(
        fmt::format("models of '{}' norm whole rows within attention and feed-forward, so they cannot be divided over "
                    "ranks; run it on one device",
                    config.architecture));
  require_divisible(config);
  if (config.latent.size > 0)
    throw FormatError(
        fmt::format("models of '{}' with latent attention cannot be divided over ranks; run it on one device",
                    config.architecture));
  if (config.has_state() || config.attention_gate)
    throw FormatError(
        fmt::format("models of '{}', whose layers keep a state or gate attention, cannot be divided over ranks; run it "
                    "on one device",
                    config.architecture));
  if (config.experts.count > 0)
    throw FormatError(fmt::format("models of '{}' with {} experts cannot be divided over ranks; run it on one device",
                                  config.architecture, config.experts.count));
  const DecoderPart part = try_part(config, split);
  if (!is_there(part)) refuse(config, split, part);
  return part;
}

DecoderConfig part_config(const DecoderConfig& config, const ModelSplit& split) {
  const DecoderPart part = decoder_part(config, split);
  DecoderConfig own = config;
  own.heads = part.heads.size;
  own.kv_heads = part.kv_heads.size;
  own.feed_forward = part.feed_forward.size;
  return own;
}

WeightPart weight_part(const DecoderConfig& config, const ModelSplit& split, const std::string& name, std::int64_t rows,
                       std::int64_t columns) {
  WeightPart whole{rows, columns, {{0, rows}}, {0, columns}};
  if (!split.is_split()) return whole;
  const DecoderPart part = decoder_part(config, split);
  std::string_view rest = name;
  const bool in_block = rest.starts_with("blocks.");
  if (in_block) rest = rest.substr(std::min(rest.size(), rest.find('.', 7) + 1));
  const std::size_t dot = rest.rfind('.');
  const std::string_view layer = rest.substr(0, dot), kind = rest.substr(std::min(rest.size(), dot));
  const auto rows_of = [&](std::int64_t all, std::vector<PartRange> ranges) {
    return WeightPart{all, columns, std::move(ranges), {0, columns}};
  };
  const auto elements_of = [&](const PartRange& heads) {
    return PartRange{heads.begin * config.head_size, heads.size * config.head_size};
  };
  const PartRange query = elements_of(part.heads), key = elements_of(part.kv_heads);
  if (!in_block)
    return layer == "token_embedding" || layer == "output" ? rows_of(config.vocabulary, {part.vocabulary}) : whole;
  if (layer == "attention.query") return rows_of(config.query_rows(), {query});
  if (layer == "attention.key" || layer == "attention.value") return rows_of(config.kv_rows(), {key});
  if (layer == "attention.qkv") {
    const std::int64_t key_at = config.query_rows(), value_at = key_at + config.kv_rows();
    return rows_of(value_at + config.kv_rows(),
                   {query, {key_at + key.begin, key.size}, {value_at + key.begin, key.size}});
  }
  if (layer == "ffn.gate" || layer == "ffn.up") return rows_of(config.feed_forward, {part.feed_forward});
  const bool down = layer == "ffn.down";
  if (!down && layer != "attention.output") return whole;
  if (kind == ".bias") {
    whole.is_zero = split.rank != 0;
    return whole;
  }
  return {rows, down ? config.feed_forward : config.query_rows(), {{0, rows}}, down ? part.feed_forward : query};
}

Tensor sum_of_parts(const Tensor& x, const ModelSplit& split) {
  if (!split.is_split()) return x;
  require_group_of(split);
  return distributed::all_reduce(x);
}

Tensor join_parts(const Tensor& x, const ModelSplit& split, std::int64_t most, std::int64_t size) {
  if (!split.is_split()) return x;
  require_group_of(split);
  const std::int64_t part = x.size(-1), rows = x.numel() / std::max<std::int64_t>(part, 1);
  Tensor own = x.reshape({rows, part});
  // A collective takes equal parts.
  if (part < most) own = cat({own, zeros({rows, most - part}, {x.dtype(), x.device()})}, 1);
  const Tensor all = distributed::all_gather(own.contiguous()).reshape({split.ranks, rows, most});
  std::vector<std::int64_t> shape(x.shape().begin(), x.shape().end());
  shape.back() = size;
  return all.transpose(0, 1).reshape({rows, split.ranks * most}).slice(1, 0, size).reshape(Shape(shape));
}

}  // namespace etna::models
