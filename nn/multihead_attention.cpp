#include <etna/nn/multihead_attention.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::nn {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// [N, rows, heads · size] → [N, heads, rows, size]
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// A mask that may be bool (true: hidden) as a floating one that is added.
Tensor added(const Tensor& mask) {
  return mask.dtype() == boolean ? masked_fill(zeros(mask.shape(), {f32, mask.device()}), mask, kMinusInfinity) : mask;
}

void check_mask_dtype(const Tensor& mask) {
  if (mask.defined() && mask.dtype() != boolean && !is_floating(mask.dtype())) {
    throw DtypeError(
        fmt::format("MultiheadAttention: a mask is {}; wanted bool (true: hidden) or floating", name(mask.dtype())));
  }
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions given)
    : embed_dim(embed_dim), num_heads(num_heads), options(given), out_proj(embed_dim, embed_dim, given.bias) {
  if (num_heads < 1 || embed_dim < 1 || embed_dim % num_heads != 0) {
    throw ShapeError(fmt::format("MultiheadAttention: {} heads do not divide embed_dim {}", num_heads, embed_dim));
  }
  const std::int64_t kdim = options.kdim > 0 ? options.kdim : embed_dim,
                     vdim = options.vdim > 0 ? options.vdim : embed_dim;
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = init::xavier_uniform_(empty({checked_product(3, embed_dim, "MultiheadAttention"), embed_dim}));
    register_parameter("in_proj_weight", &MultiheadAttention::in_proj_weight);
  } else {
    q_proj_weight = init::xavier_uniform_(empty({embed_dim, embed_dim}));
    k_proj_weight = init::xavier_uniform_(empty({embed_dim, kdim}));
    v_proj_weight = init::xavier_uniform_(empty({embed_dim, vdim}));
    register_parameter("q_proj_weight", &MultiheadAttention::q_proj_weight);
    register_parameter("k_proj_weight", &MultiheadAttention::k_proj_weight);
    register_parameter("v_proj_weight", &MultiheadAttention::v_proj_weight);
  }
  if (options.bias) {
    in_proj_bias = zeros({3 * embed_dim});
    init::zeros_(out_proj.bias);
  }
  if (options.add_bias_kv) {
    const double std = std::sqrt(2 / static_cast<double>(embed_dim + embed_dim));
    bias_k = init::normal_(empty({1, 1, embed_dim}), 0, std);
    bias_v = init::normal_(empty({1, 1, embed_dim}), 0, std);
  }
  register_parameter("in_proj_bias", &MultiheadAttention::in_proj_bias);
  register_module("out_proj", out_proj);
  register_parameter("bias_k", &MultiheadAttention::bias_k);
  register_parameter("bias_v", &MultiheadAttention::bias_v);
}

TensorList MultiheadAttention::project(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t e = embed_dim;
  const auto bias = [&](std::int64_t i) {
    return in_proj_bias.defined() ? in_proj_bias.slice(0, i * e, (i + 1) * e) : Tensor();
  };
  if (!in_proj_weight.defined()) {
    return {linear(query, q_proj_weight, bias(0)), linear(key, k_proj_weight, bias(1)),
            linear(value, v_proj_weight, bias(2))};
  }
  const auto weight = [&](std::int64_t i, std::int64_t end) { return in_proj_weight.slice(0, i * e, end * e); };
  if (query.impl() == key.impl() && key.impl() == value.impl())
    return linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
  TensorList all = {linear(query, weight(0, 1), bias(0))};
  if (key.impl() == value.impl()) {
    const Tensor both = in_proj_bias.defined() ? in_proj_bias.slice(0, e, 3 * e) : Tensor();
    for (const Tensor& x : linear(key, weight(1, 3), both).chunk(2, -1)) all.push_back(x);
    return all;
  }
  all.push_back(linear(key, weight(1, 2), bias(1)));
  all.push_back(linear(value, weight(2, 3), bias(2)));
  return all;
}

/// For the fused op: bool true: attend, or floating; undefined if nothing is hidden. @param keys without those added
Tensor MultiheadAttention::mask(const MultiheadMasks& masks, std::int64_t batch, std::int64_t queries,
                                std::int64_t keys) const {
  Tensor attn = masks.attn_mask, padding = masks.key_padding_mask;
  check_mask_dtype(attn), check_mask_dtype(padding);
  if (masks.is_causal) attn = eq(tril(ones({queries, keys}, {f32, out_proj.weight.device()})), 0.0);
  if (attn.defined()) {
    const Shape flat = {queries, keys}, each = {batch * num_heads, queries, keys};
    if (attn.shape() != flat && attn.shape() != each) {
      throw ShapeError(
          fmt::format("MultiheadAttention: attn_mask is {}; wanted {} or {}", str(attn.shape()), str(flat), str(each)));
    }
    if (attn.dim() == 3) attn = attn.reshape({batch, num_heads, queries, keys});
  }
  if (padding.defined()) {
    if (padding.dim() == 1 && batch == 1) padding = padding.unsqueeze(0);
    if (padding.shape() != Shape{batch, keys}) {
      throw ShapeError(fmt::format("MultiheadAttention: key_padding_mask is {}; wanted {}", str(padding.shape()),
                                   str(Shape{batch, keys})));
    }
    padding = padding.unsqueeze(1).unsqueeze(1);
  }
  Tensor hidden = !attn.defined() ? padding : attn;
  if (attn.defined() && padding.defined()) {
    hidden = attn.dtype() == boolean && padding.dtype() == boolean ? attn | padding : added(attn) + added(padding);
  }
  if (!hidden.defined()) return hidden;
  const std::int64_t more = (options.add_bias_kv ? 1 : 0) + (options.add_zero_attn ? 1 : 0);
  if (more > 0) {
    Shape shape = hidden.shape();
    shape.back() = more;
    hidden = cat({hidden, zeros(shape, {hidden.dtype(), hidden.device()})}, -1);
  }
  return hidden.dtype() == boolean ? ~hidden : hidden;
}

MultiheadOutput MultiheadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const MultiheadMasks& masks, bool need_weights, bool average) const {
  const std::int64_t batch = query.size(0), queries = query.size(1), keys = key.size(1);
  const bool hides = masks.attn_mask.defined() || masks.key_padding_mask.defined();
  const bool more = options.add_bias_kv || options.add_zero_attn;
  const double p = training() ? options.dropout : 0;
  const bool fused = !need_weights && p == 0, causal = masks.is_causal && !masks.key_padding_mask.defined();
  const bool self = query.impl() == key.impl() && key.impl() == value.impl() && in_proj_weight.defined();
  if (fused && self && !more && (causal || !hides)) {
    const Tensor y = self_attention(linear(query, in_proj_weight, in_proj_bias), num_heads, 0, causal);
    return {out_proj(y), {}};
  }
  const TensorList projected = project(query, key, value);
  Tensor k = projected[1], v = projected[2];
  if (options.add_bias_kv) {
    k = cat({k, bias_k.expand({batch, 1, embed_dim})}, 1);
    v = cat({v, bias_v.expand({batch, 1, embed_dim})}, 1);
  }
  if (options.add_zero_attn) {
    const Tensor nothing = zeros({batch, 1, embed_dim}, {k.dtype(), k.device()});
    k = cat({k, nothing}, 1), v = cat({v, nothing}, 1);
  }
  const Tensor q = split_heads(projected[0], num_heads);
  k = split_heads(k, num_heads), v = split_heads(v, num_heads);
  AttentionSettings settings;
  settings.dropout = p;
  settings.causal = causal && !more;
  if (!settings.causal) settings.mask = mask(masks, batch, queries, keys);
  Tensor y, weights;
  if (need_weights) {
    WeightedAttention both = attention_with_weights(q, k, v, settings);
    y = both.output, weights = average ? mean(both.weights, {1}) : both.weights;
  } else {
    y = dot_product_attention(q, k, v, settings);
  }
  return {out_proj(y.transpose(1, 2).reshape({batch, queries, embed_dim})), weights};
}

MultiheadOutput MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const MultiheadMasks& masks, bool need_weights, bool average) const {
  const auto shapes = [&] {
    return fmt::format("query {}, key {}, value {}", str(query.shape()), str(key.shape()), str(value.shape()));
  };
  const int rank = query.dim();
  if ((rank != 2 && rank != 3) || key.dim() != rank || value.dim() != rank) {
    throw ShapeError(
        fmt::format("MultiheadAttention: got {}; wanted all with a batch, 3-d, or without, 2-d", shapes()));
  }
  // The same tensor stays the same, so that its projections are one gemm.
  const auto batches = [&](const Tensor& x) {
    return rank == 2 ? x.unsqueeze(0) : options.batch_first ? x : x.transpose(0, 1);
  };
  const Tensor q = batches(query), k = key.impl() == query.impl() ? q : batches(key);
  const Tensor v = value.impl() == key.impl() ? k : value.impl() == query.impl() ? q : batches(value);
  const std::int64_t kdim = options.kdim > 0 ? options.kdim : embed_dim,
                     vdim = options.vdim > 0 ? options.vdim : embed_dim;
  if (q.size(2) != embed_dim || k.size(2) != kdim || v.size(2) != vdim || k.size(1) != v.size(1) ||
      k.size(0) != q.size(0) || v.size(0) != q.size(0)) {
    throw ShapeError(fmt::format(
        "MultiheadAttention: got {}; wanted features of {}, {} and {}, one batch, and as many "
        "keys as values{}",
        shapes(), embed_dim, kdim, vdim, options.batch_first ? "" : "; the batch is dimension 1 (batch_first is off)"));
  }
  MultiheadOutput y = attend(q, k, v, masks, need_weights, average);
  if (rank == 2) {
    y.output = y.output.squeeze(0);
    if (y.weights.defined()) y.weights = y.weights.squeeze(0);
  } else if (!options.batch_first) {
    y.output = y.output.transpose(0, 1);
  }
  return y;
}

MultiheadOutput MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const MultiheadMasks& masks, bool need_weights, bool average) const {
  if (!hooked()) return forward(query, key, value, masks, need_weights, average);
  const TensorList out = call_hooked({query, key, value}, [&](const TensorList& in) {
    const MultiheadOutput y = forward(in[0], in[1], in[2], masks, need_weights, average);
    return TensorList{y.output, y.weights};
  });
  return {out[0], out[1]};
}

std::unique_ptr<Module> MultiheadAttention::another() const {
  return std::make_unique<MultiheadAttention>(embed_dim, num_heads, options);
}

}  // namespace etna::nn
