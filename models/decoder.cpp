#include <etna/models/decoder.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

const DecoderConfig& decoder_checked(const DecoderConfig& config) {
  config.check();
  return config;
}

/// A temporary object as an argument that must have a name.
template <typename T>
T& lasting(T&& object) {
  return object;
}

/// Rows of a table that may be frozen.
Tensor decoder_rows_of(const Projection& table, const Tensor& indices) {
  return table.frozen() ? quantized_embedding(indices, table.blocks()) : embedding(table.weight, indices);
}

}  // namespace

Decoder::Decoder(const DecoderConfig& given, Weights& weights)
    : config(decoder_checked(given)),
      token_embedding(weights, "token_embedding", config.width, config.vocabulary, false),
      position_embedding(
          config.positions == PositionKind::learned
              ? std::make_unique<Projection>(weights, "position_embedding", config.width, config.context, false)
              : nullptr),
      norm(weights, "norm", config.norm, config.width, config.norm_eps, config.norm_bias),
      output(config.tied
                 ? nullptr
                 : std::make_unique<Projection>(weights, "output", config.width, config.vocabulary, config.head_bias)) {
  register_module("token_embedding", token_embedding);
  if (position_embedding) register_module("position_embedding", *position_embedding);
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(weights, fmt::format("blocks.{}", i), config, i);
  register_module("norm", norm);
  if (output) register_module("output", *output);
}

Decoder::Decoder(const DecoderConfig& config) : Decoder(config, lasting(FreshWeights(config.layers))) {}

std::unique_ptr<nn::Module> Decoder::another() const {
  if (frozen()) throw Error("clone: a decoder with weights in block formats cannot be copied; load its file again");
  return std::make_unique<Decoder>(config);
}

Tensor Decoder::embed(const Tensor& tokens, const Tensor& positions) const {
  if (tokens.dim() != 2) throw ShapeError(fmt::format("Decoder: tokens are {}; wanted [B, T]", str(tokens.shape())));
  Tensor x = decoder_rows_of(token_embedding, tokens);
  if (config.embedding_scale != 1) x = x * config.embedding_scale;
  return position_embedding ? x + decoder_rows_of(*position_embedding, positions) : x;
}

Tensor Decoder::embedded(const Tensor& tokens) const {
  Tensor positions;
  if (position_embedding) {
    if (tokens.dim() == 2 && tokens.size(1) > config.context) {
      throw ShapeError(fmt::format("Decoder: tokens {} are longer than the {} positions the model has",
                                   str(tokens.shape()), config.context));
    }
    positions = arange(0, tokens.size(-1), 1, {i64, tokens.device()});
  }
  return embed(tokens, positions);
}

Tensor Decoder::hidden(const Tensor& tokens) const {
  Tensor x = embedded(tokens);
  for (const DecoderBlock& block : blocks) x = block(x);
  return norm(x);
}

Tensor Decoder::capped(const Tensor& logits) const {
  return config.logit_softcap > 0 ? tanh(logits / config.logit_softcap) * config.logit_softcap : logits;
}

Tensor Decoder::forward(const Tensor& tokens) const { return capped(head_weights()(hidden(tokens))); }

Tensor Decoder::loss(const Tensor& tokens, const Tensor& targets) const {
  const Projection& head = head_weights();
  const Tensor x = hidden(tokens).flatten(0, 1);
  if (!head.frozen() && !head.bias.defined() && !head.has_adapter() && config.logit_softcap == 0)
    return linear_cross_entropy(x, head.weight, targets.flatten());
  return cross_entropy(capped(head(x)), targets.flatten());
}

Tensor Decoder::extend(const Tensor& tokens, const DecoderCache& cache) const {
  Tensor positions;
  if (position_embedding) {
    positions = cache.places.positions.to(i64).unsqueeze(1) + arange(0, tokens.size(-1), 1, {i64, tokens.device()});
    // Those past the end share the last row; whoever generates stops there.
    positions = clamp(positions, 0.0, static_cast<double>(config.context - 1));
  }
  const GradMode off(false);
  const fusion::OnCpu on_cpu(tokens.device());
  Tensor x = embed(tokens, positions);
  for (const DecoderBlock& block : blocks) x = block.forward(x, &cache);
  return x;
}

Tensor Decoder::head(const Tensor& x) const {
  const fusion::OnCpu on_cpu(x.device());
  return capped(head_weights()(norm(x)));
}

bool Decoder::frozen() const {
  const std::vector<Projection*> all = const_cast<Decoder*>(this)->projections(true);
  return token_embedding.frozen() ||
         std::any_of(all.begin(), all.end(), [](const Projection* p) { return p->frozen(); });
}

std::vector<Projection*> Decoder::projections(bool all) {
  std::vector<Projection*> list;
  for (DecoderBlock& block : blocks) {
    for (Projection* layer :
         {&block.attention.query, &block.attention.key, &block.attention.value, &block.attention.output})
      list.push_back(layer);
    if (!all) continue;
    for (Projection* layer : {block.ffn.gate.get(), &block.ffn.up, &block.ffn.down})
      if (layer != nullptr) list.push_back(layer);
  }
  return list;
}

void Decoder::add_adapters(std::int64_t rank, double alpha, bool all) {
  requires_grad_(false);
  for (Projection* layer : projections(all)) layer->add_adapter(rank, alpha);
}

void Decoder::merge_adapters() {
  for (Projection* layer : projections(true)) layer->merge_adapter();
}

}  // namespace etna::models
