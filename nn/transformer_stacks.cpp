#include <limits>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/nn/transformer.h>

// Layers on layers: encoder, decoder, and both.
namespace etna::nn {
TransformerEncoder::TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       TransformerOptions options, bool with_norm) {
  checked_size("TransformerEncoder", "num_layers", num_layers);
  register_module("layers", layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers.emplace_back(d_model, nhead, options);
  if (!with_norm) return;
  norm = std::make_unique<LayerNorm>(d_model, options.layer_norm_eps);
  register_module("norm", *norm);
}

Tensor TransformerEncoder::forward(const Tensor& src, const SequenceMasks& masks) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return norm ? (*norm)(x) : x;
}

Tensor TransformerEncoder::operator()(const Tensor& src, const SequenceMasks& masks) const {
  if (!hooked()) return forward(src, masks);
  return call_hooked({src}, [&](const TensorList& in) { return TensorList{forward(in[0], masks)}; })[0];
}

std::unique_ptr<Module> TransformerEncoder::another() const {
  if (layers.empty()) throw Error("clone: a TransformerEncoder without layers does not know its sizes");
  const TransformerEncoderLayer& first = layers[0];
  return std::make_unique<TransformerEncoder>(first.self_attn.embed_dim, first.self_attn.num_heads,
                                              static_cast<std::int64_t>(layers.size()), first.options, norm != nullptr);
}

TransformerDecoder::TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       TransformerOptions options, bool with_norm) {
  checked_size("TransformerDecoder", "num_layers", num_layers);
  register_module("layers", layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers.emplace_back(d_model, nhead, options);
  if (!with_norm) return;
  norm = std::make_unique<LayerNorm>(d_model, options.layer_norm_eps);
  register_module("norm", *norm);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks,
                                   const SequenceMasks& memory_masks) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks, memory_masks);
  return norm ? (*norm)(x) : x;
}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory, const SequenceMasks& masks,
                                      const SequenceMasks& memory_masks) const {
  if (!hooked()) return forward(tgt, memory, masks, memory_masks);
  return call_hooked({tgt, memory},
                     [&](const TensorList& in) { return TensorList{forward(in[0], in[1], masks, memory_masks)}; })[0];
}

std::unique_ptr<Module> TransformerDecoder::another() const {
  if (layers.empty()) throw Error("clone: a TransformerDecoder without layers does not know its sizes");
  const TransformerDecoderLayer& first = layers[0];
  return std::make_unique<TransformerDecoder>(first.self_attn.embed_dim, first.self_attn.num_heads,
                                              static_cast<std::int64_t>(layers.size()), first.options, norm != nullptr);
}

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, std::int64_t num_encoder_layers,
                         std::int64_t num_decoder_layers, TransformerOptions options)
    : encoder(d_model, nhead, num_encoder_layers, options, true),
      decoder(d_model, nhead, num_decoder_layers, options, true) {
  register_module("encoder", encoder);
  register_module("decoder", decoder);
  for (const Tensor& p : parameters()) {
    if (p.dim() > 1) init::xavier_uniform_(p);
  }
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const SequenceMasks& src_masks,
                            const SequenceMasks& tgt_masks, const SequenceMasks& memory_masks) const {
  return decoder(tgt, encoder(src, src_masks), tgt_masks, memory_masks);
}

Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const SequenceMasks& src_masks,
                               const SequenceMasks& tgt_masks, const SequenceMasks& memory_masks) const {
  if (!hooked()) return forward(src, tgt, src_masks, tgt_masks, memory_masks);
  return call_hooked({src, tgt}, [&](const TensorList& in) {
    return TensorList{forward(in[0], in[1], src_masks, tgt_masks, memory_masks)};
  })[0];
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, TensorOptions options) {
  const Tensor minus_infinity = full({size, size}, -std::numeric_limits<double>::infinity(), options);
  return masked_fill(minus_infinity, ne(tril(ones({size, size}, {f32, options.device})), 0.0), 0.0);
}

std::unique_ptr<Module> Transformer::another() const {
  if (encoder.layers.empty()) throw Error("clone: a Transformer without encoder layers does not know its sizes");
  const TransformerEncoderLayer& first = encoder.layers[0];
  return std::make_unique<Transformer>(first.self_attn.embed_dim, first.self_attn.num_heads,
                                       static_cast<std::int64_t>(encoder.layers.size()),
                                       static_cast<std::int64_t>(decoder.layers.size()), first.options);
}

}  // namespace etna::nn
