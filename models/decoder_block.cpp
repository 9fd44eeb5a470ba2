#include <etna/models/decoder_block.h>

#include <fmt/format.h>

#include <etna/models/internal/model_split.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

Owned<Norm> rms_norm_if(bool there, Weights& weights, const std::string& name, std::int64_t size,
                        const DecoderConfig& config) {
  return there ? std::make_unique<Norm>(weights, name, NormKind::rms, size, config.norm_eps) : nullptr;
}

Owned<Projection> projection_if(bool there, Weights& weights, const std::string& name, std::int64_t rows,
                                const DecoderConfig& config) {
  return there ? std::make_unique<Projection>(weights, name, config.width, rows, config.query_bias) : nullptr;
}

/// Whether queries, keys and values have a projection each.
bool has_projections(const DecoderConfig& config) { return !config.packed_qkv && config.latent.size == 0; }

Owned<Norm> block_norm_if(bool there, Weights& weights, const std::string& name, const DecoderConfig& config) {
  return there ? std::make_unique<Norm>(weights, name, config.norm, config.width, config.norm_eps, config.norm_bias)
               : nullptr;
}

}  // namespace

Norm::Norm(Weights& weights, const std::string& name, NormKind kind, std::int64_t size, double eps, bool with_bias)
    : kind(kind), eps(eps), weight(weights.vector(name + ".weight", size)) {
  if (with_bias) bias = weights.vector(name + ".bias", size);
  register_parameter("weight", &Norm::weight);
  register_parameter("bias", &Norm::bias);
}

Tensor Norm::forward(const Tensor& x) const {
  return kind == NormKind::rms ? rms_norm(x, weight, eps) : layer_norm(x, weight, bias, eps);
}

std::string Norm::extra_repr() const {
  return fmt::format("({},), eps={}, {}", weight.size(0), eps, kind == NormKind::rms ? "rms" : "layer");
}

DecoderAttention::DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config,
                                   std::int64_t layer, const ModelSplit& split)
    : qkv(projection_if(config.packed_qkv, weights, name + ".qkv", config.query_rows() + 2 * config.kv_rows(), config)),
      query(projection_if(has_projections(config), weights, name + ".query", config.query_rows(), config)),
      key(projection_if(has_projections(config), weights, name + ".key", config.kv_rows(), config)),
      value(projection_if(has_projections(config), weights, name + ".value", config.kv_rows(), config)),
      latent(config.latent.size > 0 ? std::make_unique<LatentProjections>(weights, name + ".latent", config) : nullptr),
      output(weights, name + ".output", config.value_rows(), config.width, config.output_bias),
      query_norm(rms_norm_if(config.query_key_norm, weights, name + ".query_norm",
                             config.norms_all_heads ? config.query_rows() : config.head_size, config)),
      key_norm(rms_norm_if(config.query_key_norm, weights, name + ".key_norm",
                           config.norms_all_heads ? config.kv_rows() : config.head_size, config)),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", config.query_rows(), config)),
      config_(config),
      index_(layer),
      layer_(config.layer(layer)),
      split_(split) {
  if (qkv) {
    register_module("qkv", *qkv);
  } else if (latent) {
    register_module("latent", *latent);
  } else {
    register_module("query", *query);
    register_module("key", *key);
    register_module("value", *value);
    concat_weights({query.get(), key.get(), value.get()});
  }
  register_module("output", output);
  if (query_norm) register_module("query_norm", *query_norm);
  if (key_norm) register_module("key_norm", *key_norm);
  if (sub_norm) register_module("sub_norm", *sub_norm);
  if (config.positions == PositionKind::rotary && layer_.rotary)
    frequencies_ = from_vector(config.rope_frequencies(layer));
}

Tensor DecoderAttention::frequencies_on(Device device) const {
  if (!frequencies_.defined() || frequencies_.device() == device) return frequencies_;
  const NotCaptured now;
  return frequencies_ = frequencies_.to(device);
}

/// @param x [B, heads, T, D]
Tensor DecoderAttention::rotated(const Tensor& x) const {
  if (!frequencies_.defined()) return x;
  const Tensor y = rope(x, frequencies_on(x.device()), {}, config_.rope.interleaved);
  const double magnitude = config_.rope_magnitude(index_);
  const std::int64_t turned = config_.rope.size;
  if (magnitude == 1) return y;
  if (turned == x.size(-1)) return y * magnitude;
  return cat({y.slice(-1, 0, turned) * magnitude, y.slice(-1, turned, x.size(-1))}, -1);
}

/// @param query [B, T, heads · D] @param cache as for forward()
Tensor DecoderAttention::tempered(const Tensor& query, const DecoderCache* cache) const {
  const QueryTemperature& by = config_.temperature;
  if (!layer_.temperature || config_.context + by.offset <= by.floor) return query;
  Tensor positions = arange(0, query.size(1), 1, {f32, query.device()});
  if (cache != nullptr) positions = cache->places.positions.to(f32).unsqueeze(1) + positions;
  const Tensor steps = floor((positions + static_cast<double>(by.offset)) * (1 / static_cast<double>(by.floor)));
  return query * (log1p(steps) * by.scale + 1.0).unsqueeze(-1);
}

/// Queries or keys of all heads side by side, where the norm cannot wait for the heads. @param rows [B, T, heads · D]
Tensor DecoderAttention::normed(const Tensor& rows, const Owned<Norm>& norm) const {
  return norm && config_.norms_all_heads ? (*norm)(rows) : rows;
}

AttentionSettings DecoderAttention::settings() const {
  return {
      .causal = true, .scale = config_.score_scale(), .softcap = config_.attention_softcap, .window = layer_.window};
}

/// Without a cache. @param query, key, value [B, T, heads · D]
Tensor DecoderAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t batch = query.size(0), steps = query.size(1);
  const bool by_head = query_norm && !config_.norms_all_heads;
  const auto heads_of = [&](const Tensor& rows, const Norm* norm) {
    const Tensor heads = rows.reshape({batch, steps, -1, config_.head_size});
    return (norm == nullptr ? heads : (*norm)(heads)).transpose(1, 2);
  };
  const Tensor q = rotated(heads_of(query, by_head ? query_norm.get() : nullptr));
  const Tensor k = rotated(heads_of(key, by_head ? key_norm.get() : nullptr));
  return dot_product_attention(q, k, heads_of(value, nullptr), settings()).transpose(1, 2).reshape({batch, steps, -1});
}

/// The same. @param qkv [B, T, (heads + 2 kv_heads) · D], read in place if attention has no more to it
Tensor DecoderAttention::attend(const Tensor& qkv) const {
  if (!query_norm) return self_attention(qkv, config_.heads, config_.kv_heads, settings());
  const std::int64_t key_at = config_.query_rows(), value_at = key_at + config_.kv_rows();
  return attend(normed(qkv.slice(-1, 0, key_at), query_norm), normed(qkv.slice(-1, key_at, value_at), key_norm),
                qkv.slice(-1, value_at, qkv.size(-1)));
}

Tensor DecoderAttention::attend_to_cache(const Tensor& qkv, const DecoderCache& cache) const {
  const bool by_head = query_norm && !config_.norms_all_heads;
  const RotarySettings rotary{.heads = config_.heads,
                              .kv_heads = config_.kv_heads,
                              .frequencies = frequencies_on(qkv.device()),
                              .interleaved = config_.rope.interleaved,
                              .magnitude = frequencies_.defined() ? config_.rope_magnitude(index_) : 1,
                              .query_norm = by_head ? query_norm->weight : Tensor(),
                              .key_norm = by_head ? key_norm->weight : Tensor(),
                              .eps = config_.norm_eps};
  return rotate_and_attend_(
      qkv, (*cache.layers)[static_cast<std::size_t>(index_)], cache.places, rotary,
      {.scale = config_.score_scale(), .softcap = config_.attention_softcap, .window = layer_.window});
}

/// Where queries, keys and values are no single projection. @param cache as for tempered()
AttentionRows DecoderAttention::rows_of(const Tensor& x, const ProjectionMode& mode, const DecoderCache* cache) const {
  if (latent) return latent->rows(x, mode);
  // Not within the braces of the result: where one of them throws, GCC 12 deletes the others when their scope has
  // ended.
  const Tensor q = tempered(normed((*query)(x, mode), query_norm), cache);
  const Tensor k = normed((*key)(x, mode), key_norm), v = (*value)(x, mode);
  return {q, k, v};
}

Tensor DecoderAttention::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  // Queries, keys and values end with their scope: what only the next call reads is fused with it.
  Tensor rows, y;
  if (qkv) {
    rows = (*qkv)(x, mode);
  } else {
    const auto [q, k, v] = rows_of(x, mode, mode.generates ? cache : nullptr);
    if (mode.generates) {
      rows = cat({q, k, v}, -1);
    } else {
      y = attend(q, k, v);
    }
  }
  if (!y.defined()) y = mode.generates ? attend_to_cache(rows, *cache) : attend(rows);
  if (latent) y = latent->unpadded(y);
  return sum_of_parts(output(sub_norm ? (*sub_norm)(y) : y, mode), split_);
}

DecoderBlock::DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer,
                           const ModelSplit& split)
    : attention_norm(block_norm_if(config.pre_norms, weights, name + ".attention_norm", config)),
      attention(weights, name + ".attention", config, layer, split),
      attention_post_norm(block_norm_if(config.post_norms, weights, name + ".attention_post_norm", config)),
      ffn_norm(block_norm_if(config.pre_norms && (!config.parallel || config.parallel_norms), weights,
                             name + ".ffn_norm", config)),
      ffn(weights, name + ".ffn", config,
          config.layer(layer).experts ? config.experts.feed_forward : config.feed_forward,
          config.layer(layer).experts ? &config.experts : nullptr, split),
      ffn_post_norm(block_norm_if(config.post_norms, weights, name + ".ffn_post_norm", config)),
      dropout(config.dropout),
      parallel_(config.parallel),
      residual_scale_(config.residual_scale) {
  if (attention_norm) register_module("attention_norm", *attention_norm);
  register_module("attention", attention);
  if (attention_post_norm) register_module("attention_post_norm", *attention_post_norm);
  if (ffn_norm) register_module("ffn_norm", *ffn_norm);
  register_module("ffn", ffn);
  if (ffn_post_norm) register_module("ffn_post_norm", *ffn_post_norm);
  register_module("dropout", dropout);
}

Device DecoderBlock::device() const { return attention.output.device(); }

std::vector<NamedProjection> DecoderBlock::projections(bool all) {
  std::vector<NamedProjection> list;
  const auto add = [&](const char* name, Projection* layer) {
    if (layer != nullptr) list.push_back({name, layer});
  };
  add("attention.qkv", attention.qkv.get());
  add("attention.query", attention.query.get());
  add("attention.key", attention.key.get());
  add("attention.value", attention.value.get());
  if (attention.latent) {
    add("attention.latent.query_down", attention.latent->query_down.get());
    add("attention.latent.query", &attention.latent->query);
    add("attention.latent.down", &attention.latent->down);
    add("attention.latent.up", &attention.latent->up);
  }
  add("attention.output", &attention.output);
  if (!all || ffn.router) return list;
  add("ffn.gate", ffn.gate.get());
  add("ffn.up", &ffn.up);
  add("ffn.down", &ffn.down);
  return list;
}

Tensor DecoderBlock::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  const auto normed = [](const Tensor& y, const Owned<Norm>& norm) { return norm ? (*norm)(y) : y; };
  const auto added = [&](const Tensor& y, const Owned<Norm>& post_norm) {
    const Tensor z = mode.generates ? normed(y, post_norm) : dropout(normed(y, post_norm));
    return residual_scale_ == 1 ? z : z * residual_scale_;
  };
  if (parallel_) {
    const Tensor n = normed(x, attention_norm), m = ffn_norm ? (*ffn_norm)(x) : n;
    return x + added(attention.forward(n, cache), nullptr) + added(ffn.forward(m, mode), nullptr);
  }
  const Tensor y = x + added(attention.forward(normed(x, attention_norm), cache), attention_post_norm);
  return y + added(ffn.forward(normed(y, ffn_norm), mode), ffn_post_norm);
}

}  // namespace etna::models
