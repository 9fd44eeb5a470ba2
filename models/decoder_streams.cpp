#include <fmt/format.h>

#include <etna/models/internal/decoder_parts.h>
#include <etna/tensor/ops.h>

// Several residual streams, of which blocks compute one.
namespace etna::models {
namespace {

/// Root of the mean square of each row. @return [..., 1]
Tensor magnitude(const Tensor& x) { return sqrt((x * x).mean(-1, true)); }

/// x with the magnitude of another tensor. A row of x that is nearly 0 stays small.
Tensor with_magnitude(const Tensor& x, const Tensor& wanted) {
  return x * (wanted / sqrt(clamp_min((x * x).mean(-1, true), 1e-5)));
}

}  // namespace

StreamMixer::StreamMixer(Weights& weights, const std::string& name, const DecoderConfig& config)
    : router(weights, name + ".router", config.width, config.streams.count, false),
      router_norm(weights, name + ".router_norm", NormKind::rms, config.width, config.norm_eps),
      prediction(
          weights.vector(name + ".prediction", config.streams.count * config.streams.count * config.streams.count)),
      correction(weights.vector(name + ".correction", config.streams.count * config.streams.count)),
      scale(weights.vector(name + ".scale", config.width)),
      config_(config.streams) {
  register_module("router", router);
  register_module("router_norm", router_norm);
  register_parameter("prediction", &StreamMixer::prediction);
  register_parameter("correction", &StreamMixer::correction);
  register_parameter("scale", &StreamMixer::scale);
}

/// Coefficients by a stream. @param x [B, T, width] @param weights [n, count] @return [B, T, n]
Tensor StreamMixer::mix(const Tensor& x, const Tensor& weights, const ProjectionMode& mode) const {
  const Tensor by = tanh(router(router_norm(x) * (1 / static_cast<double>(x.size(-1))), mode));
  const double limit = config_.coefficient_limit;
  return matmul(by, (limit > 0 ? clamp(weights, -limit, limit) : weights).t());
}

Tensor StreamMixer::predicted(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t n = config_.count;
  const Tensor all = x.reshape({x.size(0), x.size(1), n, -1});
  const Tensor coefficients = mix(active(all), prediction.reshape({n * n, n}), mode);
  return all + matmul(coefficients.reshape({x.size(0), x.size(1), n, n}), all);
}

Tensor StreamMixer::active(const Tensor& predicted) const { return predicted.select(2, config_.active); }

Tensor StreamMixer::corrected(const Tensor& predicted, const Tensor& result, const ProjectionMode& mode) const {
  const Tensor coefficients = mix(result, correction.reshape({config_.count, config_.count}), mode) + 1.0;
  return predicted + (result - active(predicted)).unsqueeze(2) * coefficients.unsqueeze(-1);
}

Tensor StreamMixer::scaled(const Tensor& corrected) const {
  return config_.scales_active ? active(corrected) * scale : active(corrected);
}

Tensor StreamMixer::added(const Tensor& corrected, const Tensor& delta) const {
  const Tensor first = corrected.slice(2, 0, 1), others = corrected.slice(2, 1, config_.count);
  const Tensor all = cat({first, others + delta.unsqueeze(2)}, 2);
  return all.reshape({all.size(0), all.size(1), -1});
}

StreamEnds::StreamEnds(Weights& weights, const std::string& name, const DecoderConfig& config) {
  register_module("starts", starts);
  register_module("ends", ends);
  for (std::int64_t i = 0; i + 1 < config.streams.count; ++i) {
    starts.emplace_back(weights, fmt::format("{}.starts.{}", name, i), config.width, config.width, false);
    ends.emplace_back(weights, fmt::format("{}.ends.{}", name, i), config.width, config.width, false);
  }
}

Tensor StreamEnds::divided(const Tensor& x) const {
  const Tensor wanted = magnitude(x);
  TensorList all{x};
  for (const Projection& start : starts) all.push_back(with_magnitude(start(x), wanted));
  return cat(all, -1);
}

Tensor StreamEnds::joined(const Tensor& x) const {
  const auto count = static_cast<std::int64_t>(ends.size()) + 1, width = x.size(-1) / count;
  const Tensor first = x.slice(-1, 0, width), wanted = magnitude(first);
  Tensor sum = first;
  std::int64_t at = width;
  for (const Projection& end : ends) {
    sum = sum + with_magnitude(end(x.slice(-1, at, at + width)), wanted);
    at += width;
  }
  return sum * (1 / static_cast<double>(count));
}

}  // namespace etna::models
