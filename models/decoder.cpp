#include <etna/models/decoder.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/adapter_targets.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/model_split.h>
#include <etna/models/internal/mtp_head.h>
#include <etna/models/internal/table_rows.h>
#include <etna/tensor/autocast.h>
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

/// Whether blocks read more than the residual stream.
bool needs_pass(const DecoderConfig& config) {
  return config.layer_inputs.size > 0 ||
         std::any_of(config.each_layer.begin(), config.each_layer.end(), [](auto& one) { return one.shares >= 0; });
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
      layer_inputs(config.layer_inputs.size > 0 ? std::make_unique<LayerInputs>(weights, "layer_inputs", config)
                                                : nullptr),
      streams(config.streams.count > 1 ? std::make_unique<StreamEnds>(weights, "streams", config) : nullptr),
      dropout(config.dropout),
      norm(weights, "norm", config.norm, config.width, config.norm_eps, config.norm_bias),
      output(config.tied ? nullptr
                         : std::make_unique<Projection>(weights, "output", config.width, part.vocabulary.size,
                                                        config.head_bias)) {
  register_module("token_embedding", token_embedding);
  if (position_embedding) register_module("position_embedding", *position_embedding);
  if (layer_inputs) register_module("layer_inputs", *layer_inputs);
  if (streams) register_module("streams", *streams);
  register_module("dropout", dropout);
  register_module("blocks", blocks);
  for (std::int64_t i = 0; i < config.layers; ++i)
    blocks.emplace_back(weights, fmt::format("blocks.{}", i), own_config, i, split);
  register_module("norm", norm);
  if (output) register_module("output", *output);
}

Decoder::Decoder(const DecoderConfig& config) : Decoder(config, lasting(FreshWeights(config))) {}

Decoder::~Decoder() = default;

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

Tensor Decoder::embedded(const Tensor& tokens, const Tensor& documents) const {
  if (!position_embedding) return token_rows(tokens);
  if (tokens.dim() == 2 && tokens.size(1) > config.context) {
    throw ShapeError(fmt::format("Decoder: tokens {} are longer than the {} positions the model has",
                                 str(tokens.shape()), config.context));
  }
  const Projection& table = *position_embedding;
  if (documents.defined()) {
    const Tensor all = arange(0, tokens.size(-1), 1, {i64, tokens.device()});
    return token_rows(tokens) + table_rows(table, all - documents.select(-1, 0).to(i64));
  }
  if (!table.frozen()) return token_rows(tokens) + table.weight.slice(0, 0, tokens.size(-1));
  return token_rows(tokens) + table_rows(table, arange(0, tokens.size(-1), 1, {i64, tokens.device()}));
}

/// @param embedded tokens
Decoder::Inputs Decoder::inputs(const Tensor& tokens, const Tensor& embedded) const {
  return {streams ? streams->divided(embedded) : embedded,
          layer_inputs ? layer_inputs->forward(tokens, embedded) : Tensor()};
}

/// One stream of all. @param x the last block's output
Tensor Decoder::joined(const Tensor& x) const { return streams ? streams->joined(x) : x; }

Tensor Decoder::hidden(const Tensor& tokens, const Tensor& adapters, const Tensor& documents) const {
  if (documents.defined() && adapters.defined())
    throw Error("Decoder: rows of several texts have no adapters to choose");
  if (documents.defined() && config.has_state())
    throw Error(
        "Decoder: layers that keep a state do not tell several texts of a row apart; give each a row of its own");
  const Inputs first = inputs(tokens, dropout(embedded(tokens, documents)));
  const bool recomputes = recompute_blocks && grad_enabled() && !adapters.defined();
  AdapterMasks masks;
  WindowMasks windows;
  std::map<std::int64_t, AttentionRows> shared;
  DecoderCache pass{.masks = &masks, .windows = &windows, .shared = &shared};
  Tensor x = first.x;
  // Frozen embeddings give no input that requires grad, and nothing inside a checkpoint would be differentiated.
  if (recomputes && !x.requires_grad()) x = x.detach().requires_grad_();
  const bool passes = adapters.defined() || documents.defined() || config.bidirectional || needs_pass(config);
  Device device = x.device();
  std::int64_t index = 0;
  for (const DecoderBlock& block : blocks) {
    if (block.device() != device) {
      masks = {};
      windows.clear();
    }
    device = block.device();
    if (adapters.defined()) pass.adapters = moved_to(device, adapters);
    if (documents.defined()) pass.documents = moved_to(device, documents);
    if (first.of_layers.defined()) pass.layer_inputs = moved_to(device, first.of_layers);
    x = moved_to(device, x);
    x = recomputes ? checkpointed(block, index, x, pass) : block(x, passes ? &pass : nullptr);
    ++index;
  }
  return norm(moved_to(norm.weight.device(), joined(x)));
}

/// A block's output, of which only the inputs are kept for backward. @param pass gets keys that later blocks attend to
Tensor Decoder::checkpointed(const DecoderBlock& block, std::int64_t index, const Tensor& x, DecoderCache& pass) const {
  const std::int64_t source = config.layer(index).shares;
  const bool reads = pass.layer_inputs.defined(), is_shared = config.is_shared(index);
  TensorList all{x};
  if (reads) all.push_back(pass.layer_inputs);
  if (source >= 0) {
    all.push_back(pass.shared->at(source).key);
    all.push_back(pass.shared->at(source).value);
  }
  const auto call = [&block, index, source, reads, is_shared, documents = pass.documents](const TensorList& in) {
    std::map<std::int64_t, AttentionRows> shared;
    if (source >= 0) shared[source] = {{}, in[in.size() - 2], in[in.size() - 1]};
    const DecoderCache own{.documents = documents, .layer_inputs = reads ? in[1] : Tensor(), .shared = &shared};
    const Tensor y = block(in[0], &own);
    return is_shared ? TensorList{y, shared.at(index).key, shared.at(index).value} : TensorList{y};
  };
  const TensorList out = autograd::checkpoint(call, all);
  if (is_shared) (*pass.shared)[index] = {{}, out[1], out[2]};
  return out[0];
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

Tensor Decoder::loss(const Tensor& tokens, const Tensor& targets, const Tensor& documents, Reduction reduction) const {
  require_whole("Decoder::loss");
  const Projection& head = head_weights();
  const Tensor x = scaled(hidden(tokens, {}, documents).flatten(0, 1));
  const bool plain = !head.bias.defined() && !head.has_adapter() && config.logit_softcap == 0;
  // A decoded head takes less memory than the logits of many rows and their gradients.
  if (plain && head.frozen() && x.requires_grad() && reduction != Reduction::none)
    return linear_cross_entropy(x, dequantize(head.blocks(), autocast_dtype()), targets.flatten(), {}, -100, 0,
                                reduction);
  if (plain && !head.frozen()) return linear_cross_entropy(x, head.weight, targets.flatten(), {}, -100, 0, reduction);
  return cross_entropy(capped(head(x)), targets.flatten(), -100, 0, reduction);
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
    if (const ImageChunk* images = cache.images)
      x = x.where(images->is_token.to(x.device()), images->rows.to(x.device(), x.dtype()));
  }
  const Inputs first = inputs(tokens, x);
  x = first.x;
  const auto with_inputs = [&](const Tensor& y) {
    return first.of_layers.defined() ? cat({y, first.of_layers}, -1) : y;
  };
  const std::int64_t hosted = host_layers();
  if (hosted == 0) return with_inputs(x);
  const CachePlaces& places = cache.places;
  AdapterMasks masks;
  const DecoderCache on_host{.layers = cache.layers,
                             .places = {places.table.to(kCPU), places.positions.to(kCPU)},
                             .adapters = cache.adapters.defined() ? cache.adapters.to(kCPU) : Tensor(),
                             .masks = &masks,
                             .layer_inputs = first.of_layers.defined() ? first.of_layers.to(kCPU) : Tensor(),
                             .states = cache.states,
                             .state_rows = cache.state_rows.defined() ? cache.state_rows.to(kCPU) : Tensor(),
                             .counts = cache.counts.defined() ? cache.counts.to(kCPU) : Tensor(),
                             .images = cache.images};
  x = x.to(kCPU);
  {
    const fusion::OnCpu on_cpu(kCPU);
    for (std::size_t i = 0; i < static_cast<std::size_t>(hosted); ++i)
      x = with_deep(blocks[i].forward(x, &on_host), i, on_host);
  }
  return with_inputs(x.to(norm.weight.device()));
}

Tensor Decoder::extend_rest(const Tensor& x, const DecoderCache& cache) const {
  const GradMode off(false);
  const fusion::OnCpu on_cpu(x.device());
  AdapterMasks masks;
  DecoderCache step = cache;
  step.masks = &masks;
  Tensor y = x;
  if (layer_inputs) {
    const std::int64_t size = config.streams.count * config.width;
    step.layer_inputs = x.slice(-1, size, x.size(-1));
    y = x.slice(-1, 0, size);
  }
  for (auto i = static_cast<std::size_t>(host_layers()); i < blocks.size(); ++i)
    y = with_deep(blocks[i].forward(y, &step), i, step);
  return joined(y);
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

void Decoder::add_mtp(Weights& weights) {
  require_whole("add_mtp");
  mtp = std::make_unique<MtpHead>(weights, config);
  register_module("mtp", *mtp);
}

void Decoder::require_whole(const char* what) const {
  if (!split.is_split()) return;
  throw Error(fmt::format("{}: this is part {} of {} of a model, which can only generate; load the whole model", what,
                          split.rank, split.ranks));
}

bool Decoder::frozen() const {
  const std::vector<Projection*> all = adapter_layers();
  return token_embedding.frozen() ||
         std::any_of(all.begin(), all.end(), [](const Projection* p) { return p->frozen(); });
}

std::vector<Projection*> Decoder::adapter_layers() const {
  std::vector<Projection*> list;
  for (const DecoderBlock& block : blocks)
    for (const NamedProjection& own : const_cast<DecoderBlock&>(block).adapter_layers()) list.push_back(own.layer);
  return list;
}

void Decoder::add_adapters(std::int64_t rank, double alpha, bool all) {
  add_adapters({.rank = rank, .alpha = alpha, .targets = {all ? "all" : "attention"}});
}

void Decoder::add_adapters(const AdapterOptions& options) {
  require_whole("add_adapters");
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw Error(fmt::format("add_adapters: the dropout is {}; wanted 0 or more and below 1", options.dropout));
  const std::vector<Projection*> chosen = adapter_targets(*this, options.targets);
  requires_grad_(false);
  for (Projection* layer : chosen) {
    layer->add_adapter(options.rank, options.alpha);
    layer->lora_dropout = options.dropout;
    if (options.magnitudes) layer->set_magnitudes();
  }
}

void Decoder::merge_adapters() {
  for (Projection* layer : adapter_layers()) layer->merge_adapter();
}

}  // namespace etna::models
