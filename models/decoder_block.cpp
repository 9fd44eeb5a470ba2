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
      query(projection_if(!config.packed_qkv, weights, name + ".query", config.query_rows(), config)),
      key(projection_if(!config.packed_qkv, weights, name + ".key", config.kv_rows(), config)),
      value(projection_if(!config.packed_qkv, weights, name + ".value", config.kv_rows(), config)),
      output(weights, name + ".output", config.query_rows(), config.width, config.output_bias),
      query_norm(rms_norm_if(config.query_key_norm, weights, name + ".query_norm", config.head_size, config)),
      key_norm(rms_norm_if(config.query_key_norm, weights, name + ".key_norm", config.head_size, config)),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", config.query_rows(), config)),
      config_(config),
      layer_(layer),
      window_(config.has_window(layer) ? config.window : 0),
      split_(split) {
  if (qkv) {
    register_module("qkv", *qkv);
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
  if (config.positions == PositionKind::rotary) frequencies_ = from_vector(config.rope_frequencies(layer));
}

Tensor DecoderAttention::frequencies_on(Device device) const {
  if (!frequencies_.defined() || frequencies_.device() == device) return frequencies_;
  const NotCaptured now;
  return frequencies_ = frequencies_.to(device);
}

/// @param x [B, heads, T, D]
Tensor DecoderAttention::rotated(const Tensor& x) const {
  if (config_.positions != PositionKind::rotary) return x;
  const Tensor y = rope(x, frequencies_on(x.device()), {}, config_.rope.interleaved);
  const double magnitude = config_.rope_magnitude();
  const std::int64_t turned = config_.rope.size;
  if (magnitude == 1) return y;
  if (turned == x.size(-1)) return y * magnitude;
  return cat({y.slice(-1, 0, turned) * magnitude, y.slice(-1, turned, x.size(-1))}, -1);
}

AttentionSettings DecoderAttention::settings() const {
  return {.causal = true, .scale = config_.score_scale(), .softcap = config_.attention_softcap, .window = window_};
}

/// Without a cache. @param query, key, value [B, T, heads · D]
Tensor DecoderAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t batch = query.size(0), steps = query.size(1);
  const auto heads_of = [&](const Tensor& rows, const Norm* norm) {
    const Tensor heads = rows.reshape({batch, steps, -1, config_.head_size});
    return (norm == nullptr ? heads : (*norm)(heads)).transpose(1, 2);
  };
  const Tensor q = rotated(heads_of(query, query_norm.get())), k = rotated(heads_of(key, key_norm.get()));
  return dot_product_attention(q, k, heads_of(value, nullptr), settings()).transpose(1, 2).reshape({batch, steps, -1});
}

/// The same. @param qkv [B, T, (heads + 2 kv_heads) · D], read in place if attention has no more to it
Tensor DecoderAttention::attend(const Tensor& qkv) const {
  if (!query_norm) return self_attention(qkv, config_.heads, config_.kv_heads, settings());
  const std::int64_t key_at = config_.query_rows(), value_at = key_at + config_.kv_rows();
  return attend(qkv.slice(-1, 0, key_at), qkv.slice(-1, key_at, value_at), qkv.slice(-1, value_at, qkv.size(-1)));
}

Tensor DecoderAttention::attend_to_cache(const Tensor& qkv, const DecoderCache& cache) const {
  const RotarySettings rotary{.heads = config_.heads,
                              .kv_heads = config_.kv_heads,
                              .frequencies = frequencies_on(qkv.device()),
                              .interleaved = config_.rope.interleaved,
                              .magnitude = config_.rope_magnitude(),
                              .query_norm = query_norm ? query_norm->weight : Tensor(),
                              .key_norm = key_norm ? key_norm->weight : Tensor(),
                              .eps = config_.norm_eps};
  return rotate_and_attend_(qkv, (*cache.layers)[static_cast<std::size_t>(layer_)], cache.places, rotary,
                            {.scale = config_.score_scale(), .softcap = config_.attention_softcap, .window = window_});
}

Tensor DecoderAttention::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  Tensor y;
  if (mode.generates) {
    Tensor rows;
    if (qkv) {
      rows = (*qkv)(x, mode);
    } else {
      // Not within the braces: where one of them throws, GCC 12 deletes the others when their scope has ended.
      const Tensor q = (*query)(x, mode), k = (*key)(x, mode), v = (*value)(x, mode);
      rows = cat({q, k, v}, -1);
    }
    y = attend_to_cache(rows, *cache);
  } else if (qkv) {
    y = attend((*qkv)(x, mode));
  } else {
    const Tensor q = (*query)(x, mode), k = (*key)(x, mode), v = (*value)(x, mode);
    y = attend(q, k, v);
  }
  return sum_of_parts(output(sub_norm ? (*sub_norm)(y) : y, mode), split_);
}

DecoderFeedForward::DecoderFeedForward(Weights& weights, const std::string& name, const DecoderConfig& config,
                                       const ModelSplit& split)
    : gate(config.gated ? std::make_unique<Projection>(weights, name + ".gate", config.width, config.feed_forward,
                                                       config.ffn_bias)
                        : nullptr),
      up(weights, name + ".up", config.width, config.feed_forward, config.ffn_bias),
      down(weights, name + ".down", config.feed_forward, config.width, config.ffn_bias),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", config.feed_forward, config)),
      activation_(config.activation),
      split_(split) {
  if (gate) register_module("gate", *gate);
  register_module("up", up);
  register_module("down", down);
  if (sub_norm) register_module("sub_norm", *sub_norm);
  if (gate) concat_weights({gate.get(), &up});
}

Tensor DecoderFeedForward::forward(const Tensor& x, const ProjectionMode& mode) const {
  return sum_of_parts(forward_part(x, mode), split_);
}

Tensor DecoderFeedForward::forward_part(const Tensor& x, const ProjectionMode& mode) const {
  if (!mode.generates && !gate && !sub_norm && up.plain() && down.plain())
    return feed_forward(x, up.weight, up.bias, down.weight, down.bias, activation_);
  Tensor h = activate(gate ? (*gate)(x, mode) : up(x, mode), activation_);
  if (gate) h = h * up(x, mode);
  return down(sub_norm ? (*sub_norm)(h) : h, mode);
}

DecoderBlock::DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer,
                           const ModelSplit& split)
    : attention_norm(weights, name + ".attention_norm", config.norm, config.width, config.norm_eps, config.norm_bias),
      attention(weights, name + ".attention", config, layer, split),
      attention_post_norm(block_norm_if(config.post_norms, weights, name + ".attention_post_norm", config)),
      ffn_norm(block_norm_if(!config.parallel, weights, name + ".ffn_norm", config)),
      ffn(weights, name + ".ffn", config, split),
      ffn_post_norm(block_norm_if(config.post_norms, weights, name + ".ffn_post_norm", config)),
      dropout(config.dropout) {
  register_module("attention_norm", attention_norm);
  register_module("attention", attention);
  if (attention_post_norm) register_module("attention_post_norm", *attention_post_norm);
  if (ffn_norm) register_module("ffn_norm", *ffn_norm);
  register_module("ffn", ffn);
  if (ffn_post_norm) register_module("ffn_post_norm", *ffn_post_norm);
  register_module("dropout", dropout);
}

std::vector<NamedProjection> DecoderBlock::projections(bool all) {
  std::vector<NamedProjection> list;
  const auto add = [&](const char* name, Projection* layer) {
    if (layer != nullptr) list.push_back({name, layer});
  };
  add("attention.qkv", attention.qkv.get());
  add("attention.query", attention.query.get());
  add("attention.key", attention.key.get());
  add("attention.value", attention.value.get());
  add("attention.output", &attention.output);
  if (!all) return list;
  add("ffn.gate", ffn.gate.get());
  add("ffn.up", &ffn.up);
  add("ffn.down", &ffn.down);
  return list;
}

Tensor DecoderBlock::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  const auto added = [&](const Tensor& y, const Owned<Norm>& post_norm) {
    const Tensor z = post_norm ? (*post_norm)(y) : y;
    return mode.generates ? z : dropout(z);
  };
  if (ffn_norm == nullptr) {
    const Tensor n = attention_norm(x);
    return x + added(attention.forward(n, cache), nullptr) + added(ffn.forward(n, mode), nullptr);
  }
  const Tensor y = x + added(attention.forward(attention_norm(x), cache), attention_post_norm);
  return y + added(ffn.forward((*ffn_norm)(y), mode), ffn_post_norm);
}

}  // namespace etna::models
