#include <etna/nn/lstm_language_model.h>

#include <fmt/format.h>

#include <etna/nn/dropout.h>
#include <etna/nn/init.h>
#include <etna/nn/parameters.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::nn {
namespace {

std::int64_t width_of(const LSTMLanguageModelConfig& c, std::int64_t layer) {
  return layer + 1 == c.layers ? c.dim : c.hidden;
}

}  // namespace

LSTMLanguageModel::LSTMLanguageModel(const LSTMLanguageModelConfig& config)
    : config(config), embedding(config.vocab, config.dim), bias(zeros({config.vocab})) {
  checked_size("LSTMLanguageModel", "layers", config.layers);
  for (const double p : {config.dropout_embedding, config.dropout_input, config.dropout_hidden, config.dropout_output})
    checked_probability("LSTMLanguageModel", p);
  register_module("embedding", embedding);
  register_module("layers", layers);
  register_parameter("bias", &LSTMLanguageModel::bias);
  init::uniform_(embedding.weight, -0.1, 0.1);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers.emplace_back(i == 0 ? config.dim : width_of(config, i - 1), width_of(config, i));
    if (config.weight_drop > 0) weight_drop(layers[static_cast<std::size_t>(i)], "weight_hh_l0", config.weight_drop);
  }
}

LSTMLanguageModel::Output LSTMLanguageModel::run(const Tensor& tokens, State& state) const {
  if (tokens.dim() != 2)
    throw ShapeError(fmt::format("LSTMLanguageModel: tokens {} must be [B, T]", str(tokens.shape())));
  const bool training = this->training();
  Tensor x =
      embedding_dropout(tokens.transpose(0, 1).contiguous(), embedding.weight, config.dropout_embedding, training);
  x = locked_dropout(x, config.dropout_input, training);
  Output out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    RecurrentState& kept = state.layers_[i];
    // A copy, since backward reads the state that the layer began with.
    const RecurrentOutput y = layers[i](x, {kept.h.clone(), kept.c.clone()});
    {
      GradMode off(false);
      kept.h.copy_(y.state.h.detach());
      kept.c.copy_(y.state.c.detach());
    }
    out.raw = y.output;
    const bool last = i + 1 == layers.size();
    x = locked_dropout(y.output, last ? config.dropout_output : config.dropout_hidden, training);
  }
  out.dropped = x;
  return out;
}

Tensor LSTMLanguageModel::hidden(const Tensor& tokens, State& state) const {
  return run(tokens, state).dropped.transpose(0, 1);
}

Tensor LSTMLanguageModel::forward(const Tensor& tokens, State& state) const {
  return linear(hidden(tokens, state), embedding.weight, bias);
}

Tensor LSTMLanguageModel::loss(const Tensor& tokens, const Tensor& targets, State& state) const {
  const Output h = run(tokens, state);
  Tensor loss = linear_cross_entropy(h.dropped.flatten(0, 1), embedding.weight,
                                     targets.transpose(0, 1).contiguous().flatten(), bias);
  if (!training()) return loss;
  if (config.activation > 0) loss = loss + mean(square(h.dropped.to(f32))) * config.activation;
  const std::int64_t steps = h.raw.size(0);
  if (config.slowness > 0 && steps > 1) {
    const Tensor change = h.raw.slice(0, 1, steps) - h.raw.slice(0, 0, steps - 1);
    loss = loss + mean(square(change.to(f32))) * config.slowness;
  }
  return loss;
}

LSTMLanguageModel::State::State(const LSTMLanguageModel& model, std::int64_t batch, Device device) {
  for (const LSTM& layer : model.layers) {
    const Shape shape = {1, batch, layer.hidden_size};
    layers_.push_back({zeros(shape, {f32, device}), zeros(shape, {f32, device})});
  }
}

void LSTMLanguageModel::State::zero() {
  for (RecurrentState& layer : layers_) {
    layer.h.zero_();
    layer.c.zero_();
  }
}

std::map<std::string, Tensor> LSTMLanguageModel::State::state_dict() const {
  std::map<std::string, Tensor> state;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    state[fmt::format("h.{}", i)] = layers_[i].h;
    state[fmt::format("c.{}", i)] = layers_[i].c;
  }
  return state;
}

void LSTMLanguageModel::State::load_state_dict(const std::map<std::string, Tensor>& state) {
  const auto own = state_dict();
  if (state.size() != own.size())
    throw Error(fmt::format("LSTMLanguageModel::State: {} tensors, wanted {}", state.size(), own.size()));
  for (const auto& [name, x] : own) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.shape() != x.shape())
      throw Error(fmt::format("LSTMLanguageModel::State: {} {} is not there", name, str(x.shape())));
  }
  for (const auto& [name, x] : own) {
    Tensor target = x;
    target.copy_(state.at(name));
  }
}

std::unique_ptr<Module> LSTMLanguageModel::another() const { return std::make_unique<LSTMLanguageModel>(config); }

}  // namespace etna::nn
