#include <etna/models/decoder_block.h>

#include <array>

#include <fmt/format.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

Tensor activate(const Tensor& x, ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return silu(x);
    case ActivationKind::gelu:
      return gelu(x);
    case ActivationKind::gelu_tanh:
      return gelu_tanh(x);
    case ActivationKind::relu_squared:
      break;
  }
  return square(relu(x));
}

/// Rows of queries from which on attention over gathered keys is faster.
constexpr std::int64_t kPrompt = 16;

/// The gate that quantized_linear() applies itself, or none.
Gate fused_gate(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return Gate::silu;
    case ActivationKind::gelu_tanh:
      return Gate::gelu_tanh;
    case ActivationKind::relu_squared:
      return Gate::relu_squared;
    case ActivationKind::gelu:
      break;
  }
  return Gate::none;
}

std::unique_ptr<Norm> rms_norm_if(bool there, Weights& weights, const std::string& name, std::int64_t size,
                                  const DecoderConfig& config) {
  return there ? std::make_unique<Norm>(weights, name, NormKind::rms, size, config.norm_eps) : nullptr;
}

std::unique_ptr<Norm> block_norm_if(bool there, Weights& weights, const std::string& name,
                                    const DecoderConfig& config) {
  return there ? std::make_unique<Norm>(weights, name, config.norm, config.width, config.norm_eps, config.norm_bias)
               : nullptr;
}

/// A norm in front of a product: a part of it where it is of root mean squares, else applied now.
Tensor prepare(const Tensor& x, const Norm* norm, QuantizedLinearOptions& options) {
  if (norm == nullptr) return x;
  if (norm->kind == NormKind::layer) return (*norm)(x);
  options.norm = norm->weight;
  options.eps = norm->eps;
  return x;
}

/// Whether rows of a layer's result can be rounded for a norm.
bool rounds_for(const Norm* norm) { return norm == nullptr || norm->kind == NormKind::rms; }

std::int64_t decoder_block_rows_of(const Tensor& x) { return x.size(0) * x.size(1); }

/// Rows as a product takes them, from the product before or rounded now.
RoundedRows rounded(const DecoderRows& in, const Norm* norm, DType dtype) {
  if (in.rounded.defined()) return in.rounded;
  return norm == nullptr ? round_rows(in.x, {}, dtype) : round_rows(in.x, norm->weight, dtype, norm->eps);
}

/// Asks for a result rounded for what comes next, if to anything.
void round_for(const NextNorm& next, RoundedLinearOptions& options) {
  options.rounds = next.rounds;
  if (!next.rounds || next.norm == nullptr) return;
  options.next_norm = next.norm->weight;
  options.next_eps = next.norm->eps;
}

/// One layer with a norm in front and a residual behind. @param dtype of the result
DecoderRows project(const Projection& layer, const DecoderRows& in, const Norm* norm, const Tensor& residual,
                    DType dtype, const NextNorm& next) {
  if (layer.has_adapter()) {
    const Tensor y = layer(norm == nullptr ? in.x : (*norm)(in.x)).to(dtype);
    return {residual.defined() ? residual + y : y};
  }
  const QuantizedTensor blocks = layer.blocks();
  if (dtype == f32 && rounds_for(norm)) {
    if (const auto to = rounded_rows_dtype(in.x.device(), decoder_block_rows_of(in.x), std::span(&blocks, 1))) {
      RoundedLinearOptions options{.bias = layer.bias, .residual = residual};
      if (layer.out % 32 == 0) round_for(next, options);
      if (norm != nullptr) options.eps = norm->eps;
      const RoundedLinearResult result = quantized_linear(rounded(in, norm, *to), std::span(&blocks, 1), options);
      return {result.y, result.rounded};
    }
  }
  QuantizedLinearOptions options{.bias = layer.bias, .residual = residual, .dtype = dtype};
  const Tensor x = prepare(in.x, norm, options);
  return {quantized_linear(x, blocks, options)};
}

/// The dtype in which `rows` rows, otherwise of `dtype`, are best handed to project().
/// @param fits as in quantized_operand_dtype()
DType operand_dtype(const Projection& layer, const Norm* norm, Device device, std::int64_t rows, DType dtype,
                    bool fits = false) {
  if (layer.has_adapter() || norm != nullptr) return f32;
  const QuantizedTensor blocks = layer.blocks();
  const std::optional<DType> rounded = rounded_rows_dtype(device, rows, std::span(&blocks, 1));
  if (dtype == f32 && (rounded == bf16 || (rounded == f16 && fits))) return *rounded;
  return quantized_operand_dtype(device, rows, dtype, blocks, fits);
}

/// Biases of several layers one after the other; undefined where none has one.
Tensor biases_of(std::initializer_list<const Projection*> layers) {
  std::vector<Tensor> all;
  for (const Projection* layer : layers)
    if (layer->bias.defined()) all.push_back(layer->bias.detach());
  return all.empty() ? Tensor() : cat(all);
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
                                   std::int64_t layer)
    : query(weights, name + ".query", config.width, config.query_rows(), config.query_bias),
      key(weights, name + ".key", config.width, config.kv_rows(), config.query_bias),
      value(weights, name + ".value", config.width, config.kv_rows(), config.query_bias),
      output(weights, name + ".output", config.query_rows(), config.width, config.output_bias),
      query_norm(rms_norm_if(config.query_key_norm, weights, name + ".query_norm", config.head_size, config)),
      key_norm(rms_norm_if(config.query_key_norm, weights, name + ".key_norm", config.head_size, config)),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", config.query_rows(), config)),
      config_(config),
      layer_(layer),
      window_(config.has_window(layer) ? config.window : 0) {
  register_module("query", query);
  register_module("key", key);
  register_module("value", value);
  register_module("output", output);
  lay_together({&query, &key, &value});
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

Tensor DecoderAttention::forward(const Tensor& x) const {
  const std::int64_t batch = x.size(0), steps = x.size(1), size = config_.head_size;
  const auto heads_of = [&](const Projection& layer, const Norm* norm) {
    const Tensor rows = layer(x).reshape({batch, steps, -1, size});
    return (norm == nullptr ? rows : (*norm)(rows)).transpose(1, 2);
  };
  const Tensor q = rotated(heads_of(query, query_norm.get())), k = rotated(heads_of(key, key_norm.get()));
  const Tensor v = heads_of(value, nullptr);
  AttentionSettings settings{.causal = true, .scale = config_.score_scale(), .softcap = config_.attention_softcap};
  if (window_ > 0 && steps > window_) {
    const Tensor near = triu(ones({steps, steps}, {f32, x.device()}), 1 - window_);
    settings.mask = near > 0.0;
  }
  const Tensor y = dot_product_attention(q, k, v, settings).transpose(1, 2).reshape({batch, steps, -1});
  return output(sub_norm ? (*sub_norm)(y) : y);
}

std::optional<DType> DecoderAttention::takes_rounded(Device device, std::int64_t rows) const {
  if (query.has_adapter() || key.has_adapter() || value.has_adapter()) return {};
  return rounded_rows_dtype(device, rows, std::array{query.blocks(), key.blocks(), value.blocks()});
}

DecoderRows DecoderAttention::forward(const DecoderRows& in, const Norm* norm, const Tensor& residual,
                                      const DecoderCache& cache, const NextNorm& next) const {
  const Tensor& x = in.x;
  const std::int64_t batch = x.size(0), steps = x.size(1);
  Tensor qkv;
  if (query.has_adapter() || key.has_adapter() || value.has_adapter()) {
    const Tensor normed = norm == nullptr ? x : (*norm)(x);
    qkv = cat({query(normed), key(normed), value(normed)}, -1);
  } else {
    if (query.bias.defined() && (!biases_.defined() || biases_.device() != x.device())) {
      const NotCaptured now;
      biases_ = biases_of({&query, &key, &value});
    }
    const std::array blocks{query.blocks(), key.blocks(), value.blocks()};
    const std::optional<DType> to =
        x.dtype() == f32 && rounds_for(norm) ? takes_rounded(x.device(), batch * steps) : std::nullopt;
    if (to) {
      RoundedLinearOptions options{.bias = biases_};
      if (norm != nullptr) options.eps = norm->eps;
      qkv = quantized_linear(rounded(in, norm, *to), blocks, options).y;
    } else {
      QuantizedLinearOptions options{.bias = biases_};
      const Tensor rows = prepare(x, norm, options);
      qkv = quantized_linear(rows, blocks, options);
    }
  }
  PagedCache& own = (*cache.layers)[static_cast<std::size_t>(layer_)];
  RotarySettings rotary{.heads = config_.heads,
                        .kv_heads = config_.kv_heads,
                        .frequencies = frequencies_on(x.device()),
                        .interleaved = config_.rope.interleaved,
                        .magnitude = config_.rope_magnitude(),
                        .query_norm = query_norm ? query_norm->weight : Tensor(),
                        .key_norm = key_norm ? key_norm->weight : Tensor(),
                        .eps = config_.norm_eps};
  const PagedAttentionSettings settings{
      .scale = config_.score_scale(), .softcap = config_.attention_softcap, .window = window_};
  DecoderRows heads;
  if (steps >= kPrompt && cache.longest > 0 && batch == 1) {
    if (qkv.dtype() == f32) rotary.dtype = prompt_attention_dtype(own);
    const Tensor q = rotate_and_cache_(qkv, own, cache.places, rotary);
    heads.x = prompt_attention(q, own, cache.places.table, cache.longest, settings);
    heads.x = heads.x.to(operand_dtype(output, sub_norm.get(), x.device(), steps, heads.x.dtype()));
  } else {
    const QuantizedTensor blocks = output.blocks();
    const bool rounds = !output.has_adapter() && sub_norm == nullptr &&
                        rounded_rows_dtype(x.device(), batch * steps, std::span(&blocks, 1)) == i8;
    // A weighted mean of values that fit into f16 does, too.
    if (qkv.dtype() == f32)
      rotary.dtype = operand_dtype(output, sub_norm.get(), x.device(), batch * steps, f32, own.keys.dtype() == f16);
    heads.x = rotate_and_attend_(qkv, own, cache.places, rotary, settings, rounds ? &heads.rounded : nullptr);
  }
  heads.x = heads.x.reshape({batch, steps, config_.query_rows()});
  return project(output, heads, sub_norm.get(), residual, x.dtype(), next);
}

DecoderFeedForward::DecoderFeedForward(Weights& weights, const std::string& name, const DecoderConfig& config)
    : gate(config.gated ? std::make_unique<Projection>(weights, name + ".gate", config.width, config.feed_forward,
                                                       config.ffn_bias)
                        : nullptr),
      up(weights, name + ".up", config.width, config.feed_forward, config.ffn_bias),
      down(weights, name + ".down", config.feed_forward, config.width, config.ffn_bias),
      sub_norm(rms_norm_if(config.sub_norms, weights, name + ".sub_norm", config.feed_forward, config)),
      config_(config) {
  if (gate) register_module("gate", *gate);
  register_module("up", up);
  register_module("down", down);
  if (sub_norm) register_module("sub_norm", *sub_norm);
  if (gate) lay_together({gate.get(), &up});
}

Tensor DecoderFeedForward::activated(const Tensor& x) const {
  if (gate == nullptr) return activate(up(x), config_.activation);
  if (config_.activation == ActivationKind::silu) return swiglu((*gate)(x), up(x));
  if (config_.activation == ActivationKind::gelu) return geglu((*gate)(x), up(x));
  return activate((*gate)(x), config_.activation) * up(x);
}

Tensor DecoderFeedForward::forward(const Tensor& x) const {
  const Tensor h = activated(x);
  return down(sub_norm ? (*sub_norm)(h) : h);
}

std::optional<DType> DecoderFeedForward::takes_rounded(Device device, std::int64_t rows) const {
  if (gate == nullptr || gate->has_adapter() || up.has_adapter() || fused_gate(config_.activation) == Gate::none)
    return {};
  return rounded_rows_dtype(device, rows, std::array{gate->blocks(), up.blocks()}, true);
}

DecoderRows DecoderFeedForward::forward(const DecoderRows& in, const Norm* norm, const Tensor& residual,
                                        const NextNorm& next) const {
  const Gate fused = fused_gate(config_.activation);
  const Tensor& x = in.x;
  DecoderRows h;
  if (gate == nullptr && !up.has_adapter()) {
    h.x = activate(project(up, {x}, norm, {}, x.dtype(), {}).x, config_.activation);
  } else if (gate != nullptr && fused != Gate::none && !gate->has_adapter() && !up.has_adapter()) {
    const Tensor bias = biases_of({gate.get(), &up});
    const std::array blocks{gate->blocks(), up.blocks()};
    const std::optional<DType> to =
        x.dtype() == f32 && rounds_for(norm) ? takes_rounded(x.device(), decoder_block_rows_of(x)) : std::nullopt;
    if (to) {
      const QuantizedTensor behind = down.blocks();
      RoundedLinearOptions options{.bias = bias, .gate = fused};
      if (!down.has_adapter() && sub_norm == nullptr && up.out % 32 == 0)
        options.rounds = rounded_rows_dtype(x.device(), decoder_block_rows_of(x), std::span(&behind, 1));
      if (norm != nullptr) options.eps = norm->eps;
      const RoundedLinearResult result = quantized_linear(rounded(in, norm, *to), blocks, options);
      h = {result.y, result.rounded};
    } else {
      QuantizedLinearOptions options{.bias = bias, .gate = fused};
      options.dtype = operand_dtype(down, sub_norm.get(), x.device(), decoder_block_rows_of(x), x.dtype());
      const Tensor rows = prepare(x, norm, options);
      h.x = quantized_linear(rows, blocks, options);
    }
  } else {
    h.x = activated(norm == nullptr ? x : (*norm)(x));
  }
  return project(down, h, sub_norm.get(), residual, x.dtype(), next);
}

DecoderBlock::DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer)
    : attention_norm(weights, name + ".attention_norm", config.norm, config.width, config.norm_eps, config.norm_bias),
      attention(weights, name + ".attention", config, layer),
      attention_post_norm(block_norm_if(config.post_norms, weights, name + ".attention_post_norm", config)),
      ffn_norm(block_norm_if(!config.parallel, weights, name + ".ffn_norm", config)),
      ffn(weights, name + ".ffn", config),
      ffn_post_norm(block_norm_if(config.post_norms, weights, name + ".ffn_post_norm", config)) {
  register_module("attention_norm", attention_norm);
  register_module("attention", attention);
  if (attention_post_norm) register_module("attention_post_norm", *attention_post_norm);
  if (ffn_norm) register_module("ffn_norm", *ffn_norm);
  register_module("ffn", ffn);
  if (ffn_post_norm) register_module("ffn_post_norm", *ffn_post_norm);
}

Tensor DecoderBlock::forward(const Tensor& x) const {
  const auto with = [](const std::unique_ptr<Norm>& norm, const Tensor& y) { return norm ? (*norm)(y) : y; };
  const Tensor normed = attention_norm(x);
  if (ffn_norm == nullptr) return x + attention.forward(normed) + ffn.forward(normed);
  const Tensor y = x + with(attention_post_norm, attention.forward(normed));
  return y + with(ffn_post_norm, ffn.forward((*ffn_norm)(y)));
}

DecoderRows DecoderBlock::forward(const DecoderRows& in, const DecoderCache& cache, const DecoderBlock* next) const {
  const Tensor& x = in.x;
  if (ffn_norm == nullptr) {
    const Tensor normed = attention_norm(x);
    const DecoderRows y = attention.forward({normed}, nullptr, x, cache);
    return ffn.forward({normed}, nullptr, y.x);
  }
  if (attention_post_norm == nullptr) {
    const std::int64_t rows = decoder_block_rows_of(x);
    NextNorm inner;
    if (rounds_for(ffn_norm.get())) inner = {ffn_norm.get(), ffn.takes_rounded(x.device(), rows)};
    NextNorm outer;
    if (next != nullptr && next->ffn_norm != nullptr && rounds_for(&next->attention_norm))
      outer = {&next->attention_norm, next->attention.takes_rounded(x.device(), rows)};
    const DecoderRows y = attention.forward(in, &attention_norm, x, cache, inner);
    return ffn.forward(y, ffn_norm.get(), y.x, outer);
  }
  const Tensor y = x + (*attention_post_norm)(attention.forward({x}, &attention_norm, {}, cache).x);
  return {y + (*ffn_post_norm)(ffn.forward({y}, ffn_norm.get(), {}).x)};
}

}  // namespace etna::models
