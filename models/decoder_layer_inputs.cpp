#include <cmath>

#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/table_rows.h>
#include <etna/tensor/ops.h>

// Inputs of each block by token, and how they join the residual stream; and a low-rank layer beside attention.
namespace etna::models {

LayerInputs::LayerInputs(Weights& weights, const std::string& name, const DecoderConfig& config)
    : table(weights, name + ".table", config.layers * config.layer_inputs.size, config.layer_inputs.vocabulary, false),
      projection(weights, name + ".projection", config.width, config.layers * config.layer_inputs.size, false),
      norm(weights, name + ".norm", NormKind::rms, config.layer_inputs.size, config.norm_eps),
      config_(config.layer_inputs),
      vocabulary_(config.vocabulary) {
  register_module("table", table);
  register_module("projection", projection);
  register_module("norm", norm);
}

Tensor LayerInputs::forward(const Tensor& tokens, const Tensor& x) const {
  Tensor known = tokens;
  if (config_.vocabulary < vocabulary_) known = tokens.where(tokens < static_cast<double>(config_.vocabulary), 0.0);
  const Tensor rows = table_rows(table, known) * std::sqrt(static_cast<double>(config_.size));
  const Tensor y = projection(x) * (1 / std::sqrt(static_cast<double>(x.size(-1))));
  const Tensor normed = norm(y.reshape({x.size(0), x.size(1), -1, config_.size})).reshape(rows.shape());
  return (normed + rows) * std::sqrt(0.5);
}

BlockInput::BlockInput(Weights& weights, const std::string& name, const DecoderConfig& config)
    : gate(weights, name + ".gate", config.width, config.layer_inputs.size, false),
      projection(weights, name + ".projection", config.layer_inputs.size, config.width, false),
      norm(weights, name + ".norm", NormKind::rms, config.width, config.norm_eps),
      activation_(config.activation) {
  register_module("gate", gate);
  register_module("projection", projection);
  register_module("norm", norm);
}

Tensor BlockInput::forward(const Tensor& x, const Tensor& input, const ProjectionMode& mode) const {
  return norm(projection(activate(gate(x, mode), activation_) * input, mode));
}

Laurel::Laurel(Weights& weights, const std::string& name, const DecoderConfig& config)
    : left(weights, name + ".left", config.width, config.laurel_rank, false),
      right(weights, name + ".right", config.laurel_rank, config.width, false),
      norm(weights, name + ".norm", NormKind::rms, config.width, config.norm_eps) {
  register_module("left", left);
  register_module("right", right);
  register_module("norm", norm);
}

Tensor Laurel::forward(const Tensor& x, const ProjectionMode& mode) const {
  return x + norm(right(left(x, mode), mode));
}

}  // namespace etna::models
