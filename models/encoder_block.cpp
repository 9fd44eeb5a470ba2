#include <etna/models/encoder.h>

#include <cmath>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// What the feed-forward layer of a decoder, which is an encoder's too, asks of a config.
DecoderConfig encoder_feed_forward(const EncoderConfig& c) {
  DecoderConfig sizes;
  sizes.width = c.width;
  sizes.feed_forward = c.feed_forward;
  sizes.gated = c.gated;
  sizes.activation = c.activation;
  sizes.ffn_bias = c.ffn_bias;
  return sizes;
}

Tensor encoder_frequencies(const EncoderConfig& c, bool windowed) {
  if (c.positions != PositionKind::rotary) return {};
  return rotary_frequencies(c.rope_size, windowed && c.window_rope_base > 0 ? c.window_rope_base : c.rope_base);
}

}  // namespace

const Tensor& ConstantTensor::on(Device device) const {
  if (!values_.defined() || values_.device() == device) return values_;
  const NotCaptured now;
  return values_ = values_.to(device);
}

EncoderBlock::EncoderBlock(Weights& weights, const std::string& name, const EncoderConfig& config, std::int64_t layer)
    : attention_norm(config.pre_norm && !config.first_norm && layer == 0
                         ? nullptr
                         : std::make_unique<Norm>(weights, name + ".attention_norm", NormKind::layer, config.width,
                                                  config.norm_eps, config.norm_bias)),
      qkv(weights, name + ".qkv", config.width, 3 * config.head_rows(), config.attention_bias),
      output(weights, name + ".output", config.head_rows(), config.width, config.attention_bias),
      ffn_norm(weights, name + ".ffn_norm", NormKind::layer, config.width, config.norm_eps, config.norm_bias),
      ffn(weights, name + ".ffn", encoder_feed_forward(config), config.feed_forward),
      dropout(config.dropout),
      config_(config),
      windowed_(config.has_window(layer)),
      frequencies_(encoder_frequencies(config, windowed_)) {
  if (attention_norm) register_module("attention_norm", *attention_norm);
  register_module("qkv", qkv);
  register_module("output", output);
  register_module("ffn_norm", ffn_norm);
  register_module("ffn", ffn);
  register_module("dropout", dropout);
}

Tensor EncoderBlock::attend(const Tensor& x, const EncoderSight& sight) const {
  const Tensor rows = qkv(x);
  const bool near = windowed_ && sight.window.defined();
  const Tensor& mask = near ? sight.window : sight.mask;
  AttentionSettings settings{.mask = mask, .scale = 1 / std::sqrt(static_cast<double>(config_.head_size))};
  if (!mask.defined()) settings.documents = sight.documents;
  const bool turned = sight.cosines.defined(), rotary = turned || config_.positions == PositionKind::rotary;
  if (!rotary && !mask.defined()) return output(self_attention(rows, config_.heads, config_.heads, settings));
  const std::int64_t batch = x.size(0), steps = x.size(1), width = config_.head_rows();
  const auto heads_of = [&](std::int64_t part) {
    return rows.slice(-1, part * width, (part + 1) * width)
        .reshape({batch, steps, config_.heads, config_.head_size})
        .transpose(1, 2);
  };
  const auto rotated = [&](const Tensor& heads) {
    if (turned) return apply_rotary(heads, sight.cosines, sight.sines);
    return rotary ? rope(heads, frequencies_.on(x.device())) : heads;
  };
  const Tensor q = rotated(heads_of(0)), k = rotated(heads_of(1));
  return output(dot_product_attention(q, k, heads_of(2), settings).transpose(1, 2).reshape({batch, steps, width}));
}

Tensor EncoderBlock::forward(const Tensor& x, const EncoderSight& sight) const {
  if (config_.pre_norm) {
    const Tensor y = x + dropout(attend(attention_norm ? (*attention_norm)(x) : x, sight));
    return y + dropout(ffn.forward(ffn_norm(y)));
  }
  const Tensor y = (*attention_norm)(x + dropout(attend(x, sight)));
  return ffn_norm(y + dropout(ffn.forward(y)));
}

EncoderClassifier::EncoderClassifier(Weights& weights, const std::string& name, const EncoderConfig& config)
    : dense(weights, name + ".dense", config.width, config.width, config.classifier.bias),
      norm(config.classifier.norm ? std::make_unique<Norm>(weights, name + ".norm", NormKind::layer, config.width,
                                                           config.norm_eps, config.norm_bias)
                                  : nullptr),
      output(weights, name + ".output", config.width, config.classifier.labels, true),
      activation_(config.classifier.activation) {
  register_module("dense", dense);
  if (norm) register_module("norm", *norm);
  register_module("output", output);
}

Tensor EncoderClassifier::forward(const Tensor& x) const {
  const Tensor y = dense(x), h = activation_ ? activate(y, *activation_) : tanh(y);
  return output(norm ? (*norm)(h) : h);
}

}  // namespace etna::models
