#include <etna/models/decoder.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/model_split.h>
#include <etna/models/internal/table_rows.h>
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

Tensor moved_to(Device device, const Tensor& x) { return x.device() == device ? x : x.to(device); }

}  // namespace

Decoder::Decoder(const DecoderConfig& given, Weights& weights, const ModelSplit& given_split)
    : config(decoder_checked(given)),
      split(given_split),
      part(decoder_part(config, split)),
      own_config(part_config(config, split)),
      token_embedding(weights, "token_embedding", config.width, part.vocabulary.size, false),
      position_embedding(
          config.positions == PositionKind::learned
              ? std::make_unique<Projection>(weights, "position_embedding", config.width, config.context, false)
              : nullptr),
      dropout(config.dropout),
      norm(weights, "norm", config.norm, config.width, config.norm_eps, config.norm_bias),
      output(config.tied ? nullptr
                         : std::make_unique<Projection>(weights, "output", config.width, part.vocabulary.size,
                                                        config.head_bias)) {
  register_module("token_embedding", token_embedding);
  if (position_embedding) register_module("position_embedding", *position_embedding);
  register_module("dropout", dropout);
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < config.layers; ++i)
    blocks.emplace_back(weights, fmt::format("blocks.{}", i), own_config, i, split);
  register_module("norm", norm);
  if (output) register_module("output", *output);
}

Decoder::Decoder(const DecoderConfig& config) : Decoder(config, lasting(FreshWeights(config))) {}

std::unique_ptr<nn::Module> Decoder::another() const {
  require_whole("clone");
  if (frozen()) throw Error("clone: a decoder with weights in block formats cannot be copied; load its file again");
  return std::make_unique<Decoder>(config);
}

Tensor Decoder::token_rows(const Tensor& tokens) const {
  if (tokens.dim() != 2) throw ShapeError(fmt::format("Decoder: tokens are {}; wanted [B, T]", str(tokens.shape())));
  const Tensor x = embedding_rows(tokens);
  return config.embedding_scale == 1 ? x : x * config.embedding_scale;
}

/// Of a table that ranks share: each has zeros for the tokens of others.
Tensor Decoder::embedding_rows(const Tensor& tokens) const {
  if (!split.is_split()) return table_rows(token_embedding, tokens);
  const PartRange& own = part.vocabulary;
  const Tensor indices = clamp(tokens - static_cast<double>(own.begin), 0.0, static_cast<double>(own.size - 1));
  const Tensor is_own = eq(indices + static_cast<double>(own.begin), tokens).unsqueeze(-1);
  return sum_of_parts(table_rows(token_embedding, indices).where(is_own, 0.0), split);
}

Tensor Decoder::embedded(const Tensor& tokens) const {
  if (!position_embedding) return token_rows(tokens);
  if (tokens.dim() == 2 && tokens.size(1) > config.context) {
    throw ShapeError(fmt::format("Decoder: tokens {} are longer than the {} positions the model has",
                                 str(tokens.shape()), config.context));
  }
  const Projection& table = *position_embedding;
  if (!table.frozen()) return token_rows(tokens) + table.weight.slice(0, 0, tokens.size(-1));
  return token_rows(tokens) + table_rows(table, arange(0, tokens.size(-1), 1, {i64, tokens.device()}));
}

Tensor Decoder::hidden(const Tensor& tokens, const Tensor& adapters) const {
  Tensor x = dropout(embedded(tokens));
  if (adapters.defined()) {
    AdapterMasks masks;
    Device device = adapters.device();
    for (const DecoderBlock& block : blocks) {
      if (block.device() != device) masks = {};
      device = block.device();
      const DecoderCache none{nullptr, {}, moved_to(device, adapters), &masks};
      x = block.forward(moved_to(block.device(), x), &none);
    }
    return norm(moved_to(norm.weight.device(), x));
  }
  if (!config.recompute_blocks || !grad_enabled()) {
    for (const DecoderBlock& block : blocks) x = block(moved_to(block.device(), x));
    return norm(moved_to(norm.weight.device(), x));
  }
  // Frozen embeddings give no input that requires grad, and nothing inside a checkpoint would be differentiated.
  if (!x.requires_grad()) x = x.detach().requires_grad_();
  for (const DecoderBlock& block : blocks)
    x = autograd::checkpoint([&block](const TensorList& in) { return TensorList{block(in[0])}; }, {x})[0];
  return norm(x);
}

Tensor Decoder::capped(const Tensor& logits) const {
  return config.logit_softcap > 0 ? tanh(logits / config.logit_softcap) * config.logit_softcap : logits;
}

/// The head's input, in which the factor of logits is.
Tensor Decoder::scaled(const Tensor& x) const { return config.logit_scale == 1 ? x : x * config.logit_scale; }

/// @param x normed
Tensor Decoder::logits(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t most = (config.vocabulary + split.ranks - 1) / split.ranks;
  return capped(join_parts(head_weights()(scaled(x), mode), split, most, config.vocabulary));
}

Tensor Decoder::forward(const Tensor& tokens) const { return logits(hidden(tokens), {}); }

Tensor Decoder::loss(const Tensor& tokens, const Tensor& targets) const {
  require_whole("Decoder::loss");
  const Projection& head = head_weights();
  const Tensor x = scaled(hidden(tokens).flatten(0, 1));
  if (!head.frozen() && !head.bias.defined() && !head.has_adapter() && config.logit_softcap == 0)
    return linear_cross_entropy(x, head.weight, targets.flatten());
  return cross_entropy(capped(head(x)), targets.flatten());
}

Tensor Decoder::extend_on_host(const Tensor& tokens, const DecoderCache& cache) const {
  Tensor positions;
  if (position_embedding) {
    positions = cache.places.positions.to(i64).unsqueeze(1) + arange(0, tokens.size(-1), 1, {i64, tokens.device()});
    // Those past the end share the last row; whoever generates stops there.
    positions = clamp(positions, 0.0, static_cast<double>(config.context - 1));
  }
  const GradMode off(false);
  Tensor x;
  {
    const fusion::OnCpu on_cpu(tokens.device());
    x = token_rows(tokens);
    if (position_embedding) x = x + table_rows(*position_embedding, positions);
  }
  const std::int64_t hosted = host_layers();
  if (hosted == 0) return x;
  const CachePlaces& places = cache.places;
  AdapterMasks masks;
  const DecoderCache on_host{cache.layers,
                             {places.table.to(kCPU), places.positions.to(kCPU)},
                             cache.adapters.defined() ? cache.adapters.to(kCPU) : Tensor(),
                             &masks};
  x = x.to(kCPU);
  {
    const fusion::OnCpu on_cpu(kCPU);
    for (std::int64_t i = 0; i < hosted; ++i) x = blocks[static_cast<std::size_t>(i)].forward(x, &on_host);
  }
  return x.to(norm.weight.device());
}

Tensor Decoder::extend_rest(const Tensor& x, const DecoderCache& cache) const {
  const GradMode off(false);
  const fusion::OnCpu on_cpu(x.device());
  AdapterMasks masks;
  DecoderCache step = cache;
  step.masks = &masks;
  Tensor y = x;
  for (auto i = static_cast<std::size_t>(host_layers()); i < blocks.size(); ++i) y = blocks[i].forward(y, &step);
  return y;
}

Tensor Decoder::extend(const Tensor& tokens, const DecoderCache& cache) const {
  return extend_rest(extend_on_host(tokens, cache), cache);
}

std::int64_t Decoder::host_layers() const {
  if (norm.weight.device().is_cpu()) return 0;
  std::int64_t count = 0;
  while (count < config.layers && blocks[static_cast<std::size_t>(count)].device().is_cpu()) ++count;
  return count;
}

Tensor Decoder::head(const Tensor& x) const {
  const fusion::OnCpu on_cpu(x.device());
  return logits(norm(x), {.generates = true});
}

void Decoder::require_whole(const char* what) const {
  if (!split.is_split()) return;
  throw Error(fmt::format("{}: this is part {} of {} of a model, which can only generate; load the whole model", what,
                          split.rank, split.ranks));
}

bool Decoder::frozen() const {
  const std::vector<Projection*> all = projections(true);
  return token_embedding.frozen() ||
         std::any_of(all.begin(), all.end(), [](const Projection* p) { return p->frozen(); });
}

std::vector<Projection*> Decoder::projections(bool all) const {
  std::vector<Projection*> list;
  for (const DecoderBlock& block : blocks)
    for (const NamedProjection& own : const_cast<DecoderBlock&>(block).projections(all)) list.push_back(own.layer);
  return list;
}

void Decoder::add_adapters(std::int64_t rank, double alpha, bool all) {
  require_whole("add_adapters");
  requires_grad_(false);
  for (Projection* layer : projections(all)) layer->add_adapter(rank, alpha);
}

void Decoder::merge_adapters() {
  for (Projection* layer : projections(true)) layer->merge_adapter();
}

}  // namespace etna::models
