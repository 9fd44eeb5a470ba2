#include <etna/nn/transformer.h>

#include <limits>

#include <fmt/format.h>

#include <etna/nn/init.h>

namespace etna::nn {
namespace {

MultiheadAttentionOptions attention_options(const TransformerOptions& options) {
  return {.dropout = options.dropout, .batch_first = options.batch_first};
}

MultiheadMasks masks_of(const SequenceMasks& masks) { return {masks.key_padding_mask, masks.mask, masks.is_causal}; }

void check_memory(const char* name, const Tensor& tgt, const Tensor& memory) {
  if (!tgt.defined() || !memory.defined() || tgt.dim() != memory.dim()) {
    throw ShapeError(fmt::format("{}: tgt and memory must both be given, with or without a batch", name));
  }
}

/// linear2(dropout(activation(linear1(x)))); one op if nothing stands between.
Tensor feed_forward_of(const Tensor& x, const Linear& first, const Linear& second, const Dropout& dropout,
                       Activation activation) {
  if (!dropout.active()) return feed_forward(x, first.weight, first.bias, second.weight, second.bias, activation);
  return second(dropout(linear(x, first.weight, first.bias, activation)));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions given)
    : options(given),
      self_attn(d_model, nhead, attention_options(given)),
      linear1(d_model, given.dim_feedforward),
      linear2(given.dim_feedforward, d_model),
      dropout(given.dropout),
      dropout1(given.dropout),
      dropout2(given.dropout),
      norm1(d_model, given.layer_norm_eps),
      norm2(d_model, given.layer_norm_eps) {
  register_module("self_attn", self_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const SequenceMasks& masks) const {
  return dropout1(self_attn(x, x, x, masks_of(masks), false).output);
}
Tensor TransformerEncoderLayer::feed(const Tensor& x) const {
  return dropout2(feed_forward_of(x, linear1, linear2, dropout, options.activation));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const SequenceMasks& masks) const {
  if (options.norm_first) {
    const Tensor x = src + attend(norm1(src), masks);
    return x + feed(norm2(x));
  }
  const Tensor x = norm1(src + attend(src, masks));
  return norm2(x + feed(x));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const SequenceMasks& masks) const {
  if (!hooked()) return forward(src, masks);
  return call_hooked({src}, [&](const TensorList& in) { return TensorList{forward(in[0], masks)}; })[0];
}

std::unique_ptr<Module> TransformerEncoderLayer::another() const {
  return std::make_unique<TransformerEncoderLayer>(self_attn.embed_dim, self_attn.num_heads, options);
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions given)
    : options(given),
      self_attn(d_model, nhead, attention_options(given)),
      multihead_attn(d_model, nhead, attention_options(given)),
      linear1(d_model, given.dim_feedforward),
      linear2(given.dim_feedforward, d_model),
      dropout(given.dropout),
      dropout1(given.dropout),
      dropout2(given.dropout),
      dropout3(given.dropout),
      norm1(d_model, given.layer_norm_eps),
      norm2(d_model, given.layer_norm_eps),
      norm3(d_model, given.layer_norm_eps) {
  register_module("self_attn", self_attn);
  register_module("multihead_attn", multihead_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("norm3", norm3);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
  register_module("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const SequenceMasks& masks) const {
  return dropout1(self_attn(x, x, x, masks_of(masks), false).output);
}
Tensor TransformerDecoderLayer::cross(const Tensor& x, const Tensor& memory, const SequenceMasks& masks) const {
  return dropout2(multihead_attn(x, memory, memory, masks_of(masks), false).output);
}
Tensor TransformerDecoderLayer::feed(const Tensor& x) const {
  return dropout3(feed_forward_of(x, linear1, linear2, dropout, options.activation));
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks,
                                        const SequenceMasks& memory_masks) const {
  check_memory("TransformerDecoderLayer", tgt, memory);
  if (options.norm_first) {
    Tensor x = tgt + attend(norm1(tgt), masks);
    x = x + cross(norm2(x), memory, memory_masks);
    return x + feed(norm3(x));
  }
  Tensor x = norm1(tgt + attend(tgt, masks));
  x = norm2(x + cross(x, memory, memory_masks));
  return norm3(x + feed(x));
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks,
                                           const SequenceMasks& memory_masks) const {
  if (!hooked()) return forward(tgt, memory, masks, memory_masks);
  return call_hooked({tgt, memory},
                     [&](const TensorList& in) { return TensorList{forward(in[0], in[1], masks, memory_masks)}; })[0];
}

std::unique_ptr<Module> TransformerDecoderLayer::another() const {
  return std::make_unique<TransformerDecoderLayer>(self_attn.embed_dim, self_attn.num_heads, options);
}

}  // namespace etna::nn
