#include <etna/models/decoder_block.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/model_split.h>
#include <etna/models/internal/state_mixers.h>
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

template <typename Mixer>
Owned<Mixer> mixer_if(bool there, Weights& weights, const std::string& name, const DecoderConfig& config,
                      std::int64_t layer) {
  return there ? std::make_unique<Mixer>(weights, name, config, layer) : nullptr;
}

/// Whether queries, keys and values have a projection each.
bool has_projections(const DecoderConfig& config) { return !config.packed_qkv && config.latent.size == 0; }
/// Whether a layer has keys of its own.
bool has_keys(const LayerConfig& layer) { return layer.shares < 0; }

/// A constant that follows what is computed to its device.
const Tensor& constant_on(Device device, Tensor& constant) {
  if (!constant.defined() || constant.device() == device) return constant;
  const NotCaptured now;
  return constant = constant.to(device);
}

/// Whether the feed-forward layer of all positions is a mixture of experts.
bool is_mixture(const DecoderConfig& config, std::int64_t layer) {
  return config.layer(layer).experts && !config.experts.beside_dense;
}
std::int64_t ffn_columns(const DecoderConfig& config, std::int64_t layer) {
  const std::int64_t own = config.layer(layer).feed_forward;
  return is_mixture(config, layer) ? config.experts.feed_forward : own > 0 ? own : config.feed_forward;
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
    : DecoderAttention(weights, name, config, config.of_layer(layer), layer, split) {}

DecoderAttention::DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config,
                                   const DecoderConfig& own, std::int64_t layer, const ModelSplit& split)
    : qkv(projection_if(config.packed_qkv, weights, name + ".qkv", config.query_rows() + 2 * config.kv_rows(), config)),
      query(projection_if(has_projections(config), weights, name + ".query", own.query_rows(), config)),
      key(projection_if(has_projections(config) && has_keys(config.layer(layer)), weights, name + ".key", own.kv_rows(),
                        config)),
      value(projection_if(
          has_projections(config) && has_keys(config.layer(layer)) && !config.layer(layer).keys_are_values, weights,
          name + ".value", own.kv_rows(), config)),
      latent(config.latent.size > 0 ? std::make_unique<LatentProjections>(weights, name + ".latent", config) : nullptr),
      output(weights, name + ".output", own.value_rows(), config.width, config.output_bias),
      gate(projection_if(config.attention_gate, weights, name + ".gate", own.query_rows(), config)),
      query_norm(rms_norm_if(config.query_key_norm, weights, name + ".query_norm",
                             config.norms_all_heads ? own.query_rows() : own.head_size, config)),
      key_norm(rms_norm_if(config.query_key_norm && has_keys(config.layer(layer)), weights, name + ".key_norm",
                           config.norms_all_heads ? own.kv_rows() : own.head_size, config)),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", own.query_rows(), config)),
      config_(own),
      index_(layer),
      is_shared_(config.is_shared(layer)),
      layer_(config.layer(layer)),
      split_(split) {
  if (qkv) {
    register_module("qkv", *qkv);
  } else if (latent) {
    register_module("latent", *latent);
  } else {
    register_module("query", *query);
    if (key) register_module("key", *key);
    if (value) register_module("value", *value);
    concat_weights({query.get(), key.get(), value.get()});
  }
  register_module("output", output);
  if (gate) register_module("gate", *gate);
  if (query_norm) register_module("query_norm", *query_norm);
  if (key_norm) register_module("key_norm", *key_norm);
  if (sub_norm) register_module("sub_norm", *sub_norm);
  if (config.value_norm || config.plain_query_key_norm) unit_ = ones({own.head_size});
  if (config.sinks) sinks = weights.vector(name + ".sinks", config.heads);
  register_parameter("sinks", &DecoderAttention::sinks);
  if (config.positions == PositionKind::rotary && layer_.rotary)
    frequencies_ = from_vector(config_.rope_frequencies(layer));
}

/// @param x [B, heads, T, D] @param positions as for rope()
Tensor DecoderAttention::rotated(const Tensor& x, const Tensor& positions) const {
  if (!frequencies_.defined()) return x;
  const Tensor y = rope(x, constant_on(x.device(), frequencies_), positions, config_.rope.interleaved);
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
  if (cache != nullptr && cache->layers != nullptr) {
    positions = cache->places.positions.to(f32).unsqueeze(1) + positions;
  } else if (cache != nullptr && cache->documents.defined()) {
    positions = positions - cache->documents.select(-1, 0).to(f32);
  }
  const Tensor steps = floor((positions + static_cast<double>(by.offset)) * (1 / static_cast<double>(by.floor)));
  return query * (log1p(steps) * by.scale + 1.0).unsqueeze(-1);
}

/// Queries or keys of all heads side by side, where the norm cannot wait for the heads. @param rows [B, T, heads · D]
Tensor DecoderAttention::normed(const Tensor& rows, const Owned<Norm>& norm) const {
  if (!norm || !config_.norms_all_heads) return rows;
  if (!config_.layer_norms_heads) return (*norm)(rows);
  const Tensor heads = rows.reshape({rows.size(0), rows.size(1), -1, config_.head_size});
  return layer_norm(heads, {}, {}, norm->eps).reshape(rows.shape()) * norm->weight;
}

/// The weights of a norm of each head of queries or keys, [D]; undefined: there is none, or one of all heads.
Tensor DecoderAttention::head_norm_weight(const Owned<Norm>& norm, Device device) const {
  if (norm) return config_.norms_all_heads ? Tensor() : norm->weight;
  // Rotation keeps the length of a pair, so that a norm without weights may come before it.
  return config_.plain_query_key_norm && frequencies_.defined() ? constant_on(device, unit_) : Tensor();
}

/// @param rows [B, T, heads · D] @param norm of each head, [D], or undefined @return [B, heads, T, D]
Tensor DecoderAttention::heads_of(const Tensor& rows, const Tensor& norm) const {
  const Tensor heads = rows.reshape({rows.size(0), rows.size(1), -1, config_.head_size});
  return (norm.defined() ? rms_norm(heads, norm, config_.norm_eps) : heads).transpose(1, 2);
}

/// Of whole rows. @param x what they are computed from, [B, T, ...]
AttentionSettings DecoderAttention::settings(const Tensor& x, const DecoderCache* cache) const {
  const Tensor mask = window_mask(x.size(1), x.device(), cache);
  return {.mask = mask,
          .causal = !config_.bidirectional,
          .scale = config_.score_scale(),
          .softcap = config_.attention_softcap,
          .window = config_.bidirectional ? 0 : layer_.window,
          .chunk = layer_.chunk,
          .documents = cache == nullptr || mask.defined() ? Tensor() : cache->documents,
          .sinks = sinks};
}

PagedAttentionSettings DecoderAttention::paged_settings() const {
  return {.scale = config_.score_scale(),
          .softcap = config_.attention_softcap,
          .window = layer_.window,
          .chunk = layer_.chunk,
          .sinks = sinks};
}

/// Without a cache, as attention reads them: those of another layer, or normed and rotated ones, which later layers
/// find in `cache`. @param rows [B, T, heads · D]
AttentionRows DecoderAttention::rotated_rows(const AttentionRows& rows, const DecoderCache* cache) const {
  const Device device = rows.query.device();
  auto* shared = cache == nullptr ? nullptr : cache->shared;
  AttentionRows all{rotated(heads_of(rows.query, head_norm_weight(query_norm, device))), {}, {}};
  if (has_keys(layer_)) {
    all.key = rotated(heads_of(rows.key, head_norm_weight(key_norm, device)));
    all.value = heads_of(rows.value, {});
    if (is_shared_ && shared != nullptr) (*shared)[index_] = {{}, all.key, all.value};
    return all;
  }
  const bool there = shared != nullptr && shared->contains(layer_.shares);
  if (!there)
    throw Error(
        fmt::format("DecoderAttention: layer {} attends to keys of layer {}, which this call does not have; "
                    "call the whole decoder",
                    index_, layer_.shares));
  const AttentionRows& own = shared->at(layer_.shares);
  all.key = own.key.to(device);
  all.value = own.value.to(device);
  return all;
}

/// Without a cache of earlier rows. @param rows [B, T, heads · D]
Tensor DecoderAttention::attend(const AttentionRows& rows, const DecoderCache* cache) const {
  const std::int64_t batch = rows.query.size(0), steps = rows.query.size(1);
  const auto [q, k, v] = rotated_rows(rows, cache);
  return dot_product_attention(q, k, v, settings(rows.query, cache)).transpose(1, 2).reshape({batch, steps, -1});
}

/// The same. @param qkv [B, T, (heads + 2 kv_heads) · D], read in place if attention has no more to it
Tensor DecoderAttention::attend(const Tensor& qkv, const DecoderCache* cache) const {
  if (!query_norm) return self_attention(qkv, config_.heads, config_.kv_heads, settings(qkv, cache));
  const std::int64_t key_at = config_.query_rows(), value_at = key_at + config_.kv_rows();
  return attend({normed(qkv.slice(-1, 0, key_at), query_norm), normed(qkv.slice(-1, key_at, value_at), key_norm),
                 qkv.slice(-1, value_at, qkv.size(-1))},
                cache);
}

RotarySettings DecoderAttention::rotary_settings(Device device) const {
  return {.heads = config_.heads,
          .kv_heads = latent ? 1 : config_.kv_heads,
          .frequencies = constant_on(device, frequencies_),
          .interleaved = config_.rope.interleaved,
          .magnitude = frequencies_.defined() ? config_.rope_magnitude(index_) : 1,
          .query_norm = head_norm_weight(query_norm, device),
          .key_norm = head_norm_weight(key_norm, device),
          .eps = config_.norm_eps};
}

Tensor DecoderAttention::attend_to_cache(const Tensor& qkv, const DecoderCache& cache) const {
  const RotarySettings rotary = rotary_settings(qkv.device());
  if (cache.images != nullptr) return attend_to_images(qkv, cache, rotary);
  return rotate_and_attend_(qkv, (*cache.layers)[static_cast<std::size_t>(index_)], cache.places, rotary,
                            paged_settings());
}

/// Queries as attention to a cache reads them. @param query [B, T, heads · D] @return [B, T, heads, D]
Tensor DecoderAttention::placed(const Tensor& query, const CachePlaces& places) const {
  const std::int64_t batch = query.size(0), steps = query.size(1);
  const Tensor positions = places.positions.to(i64).unsqueeze(1) + arange(0, steps, 1, {i64, query.device()});
  // Positions differ between sequences, so all of their rows are those of one.
  const Tensor heads = heads_of(query.reshape({1, batch * steps, -1}), head_norm_weight(query_norm, query.device()));
  return rotated(heads, positions.reshape({batch * steps})).transpose(1, 2).reshape({batch, steps, config_.heads, -1});
}

/// To the keys that an earlier layer has cached. @param query [B, T, heads · D] @return the same
Tensor DecoderAttention::attend_to_shared(const Tensor& query, const DecoderCache& cache) const {
  const PagedCache& own = (*cache.layers)[static_cast<std::size_t>(index_)];
  return paged_attention(placed(query, cache.places), own, cache.places, paged_settings()).flatten(2);
}

/// Where queries, keys and values are no single projection. @param cache as for tempered()
AttentionRows DecoderAttention::rows_of(const Tensor& x, const ProjectionMode& mode, const DecoderCache* cache) const {
  if (latent) return latent->rows(x, mode);
  // Not within the braces of the result: where one of them throws, GCC 12 deletes the others when their scope has
  // ended.
  const Tensor q = tempered(normed((*query)(x, mode), query_norm), cache);
  if (!key) return {q, {}, {}};
  const Tensor own = (*key)(x, mode);
  const Tensor given = value ? (*value)(x, mode) : own;
  const Tensor v = config_.value_norm
                       ? heads_of(given, constant_on(given.device(), unit_)).transpose(1, 2).reshape(given.shape())
                       : given;
  const Tensor k = normed(own, key_norm);
  const double limit = config_.qkv_limit;
  if (limit > 0) return {clamp(q, -limit, limit), clamp(k, -limit, limit), clamp(v, -limit, limit)};
  return {q, k, v};
}

/// @param y [B, T, heads · D] @param x the block's input
Tensor DecoderAttention::gated(const Tensor& y, const Tensor& x, const ProjectionMode& mode) const {
  return gate ? y * sigmoid((*gate)(x, mode)) : y;
}

Tensor DecoderAttention::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  // Queries, keys and values end with their scope: what only the next call reads is fused with it.
  Tensor rows, y;
  if (qkv) {
    rows = (*qkv)(x, mode);
  } else if (latent && mode.generates) {
    y = attend_to_latent(x, *cache);
  } else {
    const AttentionRows all = rows_of(x, mode, cache);
    if (!mode.generates) {
      y = attend(all, cache);
    } else if (all.key.defined()) {
      rows = cat({all.query, all.key, all.value}, -1);
    } else {
      y = attend_to_shared(all.query, *cache);
    }
  }
  if (!y.defined()) y = mode.generates ? attend_to_cache(rows, *cache) : attend(rows, cache);
  if (latent && !mode.generates) y = latent->unpadded(y);
  y = gated(y, x, mode);
  return sum_of_parts(output(sub_norm ? (*sub_norm)(y) : y, mode), split_);
}

DecoderBlock::DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer,
                           const ModelSplit& split)
    : attention_norm(block_norm_if(config.pre_norms && config.layer(layer).mixer != MixerKind::none, weights,
                                   name + ".attention_norm", config)),
      attention(config.layer(layer).has_attention()
                    ? std::make_unique<DecoderAttention>(weights, name + ".attention", config, layer, split)
                    : nullptr),
      delta(
          mixer_if<DeltaMixer>(config.layer(layer).mixer == MixerKind::delta, weights, name + ".delta", config, layer)),
      mamba(mixer_if<MambaMixer>(config.layer(layer).has_mamba(), weights, name + ".mamba", config, layer)),
      convolution(mixer_if<ConvolutionMixer>(config.layer(layer).mixer == MixerKind::convolution, weights,
                                             name + ".convolution", config, layer)),
      attention_post_norm(block_norm_if(config.post_norms, weights, name + ".attention_post_norm", config)),
      ffn_norm(block_norm_if(
          config.pre_norms && (!config.parallel || config.parallel_norms) && config.layer(layer).has_feed_forward,
          weights, name + ".ffn_norm", config)),
      ffn(config.layer(layer).has_feed_forward
              ? std::make_unique<DecoderFeedForward>(weights, name + ".ffn", config, ffn_columns(config, layer),
                                                     is_mixture(config, layer) ? &config.experts : nullptr, split,
                                                     config.layer(layer).sparsity)
              : nullptr),
      ffn_post_norm(block_norm_if(config.post_norms, weights, name + ".ffn_post_norm", config)),
      beside(config.layer(layer).experts && config.experts.beside_dense
                 ? std::make_unique<ExpertsBeside>(weights, name + ".beside", config)
                 : nullptr),
      laurel(config.laurel_rank > 0 ? std::make_unique<Laurel>(weights, name + ".laurel", config) : nullptr),
      mixer(config.streams.count > 1 ? std::make_unique<StreamMixer>(weights, name + ".mixer", config) : nullptr),
      input(config.layer_inputs.size > 0 ? std::make_unique<BlockInput>(weights, name + ".input", config) : nullptr),
      dropout(config.dropout),
      parallel_(config.parallel),
      residual_scale_(config.residual_scale),
      attention_input_scale_(config.attention_input_scale),
      attention_output_scale_(config.attention_output_scale),
      index_(layer) {
  const auto add = [this](const char* part, nn::Module* module) {
    if (module != nullptr) register_module(part, *module);
  };
  add("attention_norm", attention_norm.get());
  add("attention", attention.get());
  add("delta", delta.get());
  add("mamba", mamba.get());
  add("convolution", convolution.get());
  add("attention_post_norm", attention_post_norm.get());
  add("ffn_norm", ffn_norm.get());
  add("ffn", ffn.get());
  add("ffn_post_norm", ffn_post_norm.get());
  add("beside", beside.get());
  add("laurel", laurel.get());
  add("mixer", mixer.get());
  add("input", input.get());
  if (config.block_scales) scale = weights.vector(name + ".scale", 1);
  register_parameter("scale", &DecoderBlock::scale);
  register_module("dropout", dropout);
}

DecoderBlock::~DecoderBlock() = default;

Device DecoderBlock::device() const {
  if (attention) return attention->output.device();
  if (delta) return delta->output.device();
  if (mamba) return mamba->output.device();
  if (convolution) return convolution->output.device();
  return ffn->router ? ffn->router->logits.device() : ffn->down.device();
}

std::vector<NamedProjection> DecoderBlock::projections(bool all) {
  std::vector<NamedProjection> list;
  const auto add = [&](const char* name, Projection* layer) {
    if (layer != nullptr) list.push_back({name, layer});
  };
  if (attention) {
    add("attention.qkv", attention->qkv.get());
    add("attention.query", attention->query.get());
    add("attention.key", attention->key.get());
    add("attention.value", attention->value.get());
    if (attention->latent) {
      add("attention.latent.query_down", attention->latent->query_down.get());
      add("attention.latent.query", &attention->latent->query);
      add("attention.latent.down", &attention->latent->down);
      add("attention.latent.up", &attention->latent->up);
    }
    add("attention.output", &attention->output);
  }
  if (!all || !ffn || ffn->router) return list;
  add("ffn.gate", ffn->gate.get());
  add("ffn.up", &ffn->up);
  add("ffn.down", &ffn->down);
  return list;
}

std::vector<NamedProjection> DecoderBlock::adapter_layers() {
  std::vector<NamedProjection> list = projections();
  const auto add = [&](std::string name, Projection* layer) {
    if (layer != nullptr) list.push_back({std::move(name), layer});
  };
  const auto add_feed_forward = [&](const std::string& name, DecoderFeedForward& layer) {
    add(name + ".gate", layer.gate.get());
    add(name + ".up", &layer.up);
    add(name + ".down", &layer.down);
    add(name + ".latent_down", layer.latent_down.get());
    add(name + ".latent_up", layer.latent_up.get());
  };
  if (attention) add("attention.gate", attention->gate.get());
  if (delta) {
    add("delta.qkv", &delta->qkv);
    add("delta.gate", &delta->gate);
    add("delta.beta", &delta->beta);
    add("delta.decay", &delta->decay);
    add("delta.output", &delta->output);
  }
  if (mamba) {
    add("mamba.input", &mamba->input);
    add("mamba.output", &mamba->output);
  }
  if (convolution) {
    add("convolution.input", &convolution->input);
    add("convolution.output", &convolution->output);
  }
  if (ffn && ffn->router) add_feed_forward("ffn", *ffn);
  if (ffn && ffn->shared) add_feed_forward("ffn.shared", *ffn->shared);
  if (beside) add_feed_forward("beside.ffn", beside->ffn);
  return list;
}

/// What the mixer gives. @param x normed
Tensor DecoderBlock::mixed(const Tensor& x, const DecoderCache* cache) const {
  if (delta) return delta->forward(x, cache);
  if (convolution) return convolution->forward(x, cache);
  const auto scaled = [](const Tensor& y, double scale) { return scale == 1 ? y : y * scale; };
  Tensor sum;
  if (mamba) sum = mamba->forward(x, cache);
  if (!attention) return sum;
  const Tensor y = scaled(attention->forward(scaled(x, attention_input_scale_), cache), attention_output_scale_);
  return sum.defined() ? sum + y : y;
}

/// Attention and feed-forward layer. @param x [B, T, width]
Tensor DecoderBlock::sublayers(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  const auto normed = [](const Tensor& y, const Owned<Norm>& norm) { return norm ? (*norm)(y) : y; };
  const auto added = [&](const Tensor& y, const Owned<Norm>& post_norm) {
    const Tensor z = mode.generates ? normed(y, post_norm) : dropout(normed(y, post_norm));
    return residual_scale_ == 1 ? z : z * residual_scale_;
  };
  if (parallel_) {
    const Tensor n = normed(x, attention_norm), m = ffn_norm ? (*ffn_norm)(x) : n;
    return x + added(mixed(n, cache), nullptr) + added(ffn->forward(m, mode), nullptr);
  }
  const Tensor n = normed(x, attention_norm);
  const bool mixes = attention || delta || mamba || convolution;
  Tensor y = mixes ? x + added(mixed(n, cache), attention_post_norm) : x;
  if (laurel) y = (y + laurel->forward(n, mode)) * std::sqrt(0.5);
  if (!ffn) return y;
  const Tensor dense = ffn->forward(normed(y, ffn_norm), mode);
  return y + added(beside ? beside->forward(dense, y, mode) : dense, ffn_post_norm);
}

/// The block's own input. @return [B, T, size]
Tensor DecoderBlock::own_input(const DecoderCache* cache) const {
  if (cache == nullptr || !cache->layer_inputs.defined())
    throw Error(
        fmt::format("DecoderBlock: block {} reads an input of its own, which this call does not have; call the "
                    "whole decoder",
                    index_));
  return cache->layer_inputs.slice(-1, index_ * input->gate.out, (index_ + 1) * input->gate.out);
}

Tensor DecoderBlock::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = cache == nullptr ? ProjectionMode() : cache->mode();
  if (mixer) {
    const Tensor predicted = mixer->predicted(x, mode);
    const Tensor all = mixer->corrected(predicted, sublayers(mixer->active(predicted), cache), mode);
    return mixer->added(all, input->forward(mixer->scaled(all), own_input(cache), mode));
  }
  Tensor y = sublayers(x, cache);
  if (input) y = y + input->forward(y, own_input(cache), mode);
  return scale.defined() ? y * scale : y;
}

Tensor DecoderBlock::operator()(const Tensor& x, const DecoderCache* cache) const {
  if (!hooked()) return forward(x, cache);
  return call_hooked({x}, [&](const TensorList& in) { return TensorList{forward(in[0], cache)}; })[0];
}

}  // namespace etna::models
