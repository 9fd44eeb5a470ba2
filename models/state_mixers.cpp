#include <etna/models/internal/state_mixers.h>

#include <algorithm>
#include <cmath>

#include <etna/models/internal/state_cache.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

// Blocks' parts that keep a state: gated delta nets, Mamba-2 and short convolutions.
namespace etna::models {
namespace {

/// None where the rows are all that there is. @param updated whether the states take up the rows at once
StatePlaces places_in(const DecoderCache* cache, std::int64_t layer, bool updated) {
  if (cache == nullptr || cache->layers == nullptr || cache->states == nullptr) return {};
  const auto places = [&](const Tensor& state) {
    return StateRows{state, cache->state_rows, cache->places.positions, cache->counts, updated};
  };
  const LayerState& own = cache->states[layer];
  return {places(own.inputs), own.memory.defined() ? places(own.memory) : StateRows()};
}

/// Keeps what the state of a layer would take up, side by side, where it waits with that.
/// @return the places of its states
StatePlaces hold(const DecoderCache* cache, std::int64_t layer, const TensorList& parts) {
  const bool holds = cache != nullptr && cache->states != nullptr && cache->states[layer].held.defined();
  if (holds) {
    std::int64_t at = 0;
    for (const Tensor& part : parts) {
      cache->states[layer].held.slice(-1, at, at + part.size(-1)).copy_(part);
      at += part.size(-1);
    }
  }
  return places_in(cache, layer, !holds);
}

/// Rows up to which one kernel multiplies them with several matrices.
constexpr std::int64_t kFewRows = 8;

ProjectionMode state_mode(const DecoderCache* cache) { return cache == nullptr ? ProjectionMode() : cache->mode(); }

/// Positive steps of time, or rates of decay. @param x [B, T, heads]
Tensor positive_steps(const Tensor& x, const Tensor& bias) {
  return softplus(x.to(x.dtype() == f64 ? f64 : f32) + bias);
}

}  // namespace

StateConvolution::StateConvolution(Weights& weights, const std::string& name, const DecoderConfig& config,
                                   std::int64_t channels)
    : weight(
          weights.vector(name + ".weight", channels * config.state.kernel).reshape({channels, config.state.kernel})) {
  if (config.state.kernel_bias) bias = weights.vector(name + ".bias", channels);
  register_parameter("weight", &StateConvolution::weight);
  register_parameter("bias", &StateConvolution::bias);
}

Tensor StateConvolution::forward(const Tensor& x, bool silu, const StateRows& places) const {
  return causal_conv1d(x, weight, bias, silu, places);
}

DeltaMixer::DeltaMixer(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer)
    : qkv(weights, name + ".qkv", config.width, config.state_channels(MixerKind::delta), false),
      gate(weights, name + ".gate", config.width, config.state.value_rows(), false),
      beta(weights, name + ".beta", config.width, config.state.heads, false),
      decay(weights, name + ".decay", config.width, config.state.heads, false),
      kernel(weights, name + ".kernel", config, config.state_channels(MixerKind::delta)),
      log_decay(weights.vector(name + ".log_decay", config.state.heads)),
      step_bias(weights.vector(name + ".step_bias", config.state.heads)),
      norm(weights, name + ".norm", NormKind::rms, config.state.value_size, config.norm_eps),
      output(weights, name + ".output", config.state.value_rows(), config.width, config.state.output_bias),
      config_(config),
      index_(layer) {
  register_module("qkv", qkv);
  register_module("gate", gate);
  register_module("beta", beta);
  register_module("decay", decay);
  register_module("kernel", kernel);
  register_parameter("log_decay", &DeltaMixer::log_decay);
  register_parameter("step_bias", &DeltaMixer::step_bias);
  register_module("norm", norm);
  register_module("output", output);
}

/// What heads find, [B, T, heads, value_size]. @param rows in front of the convolution, [B, T, channels]
/// @param decay, beta [B, T, heads]
Tensor DeltaMixer::attend(const Tensor& rows, const Tensor& decay_rows, const Tensor& beta_rows,
                          const StatePlaces& places) const {
  const StateConfig& s = config_.state;
  const std::int64_t keys = s.key_rows(), all = 2 * keys + s.value_rows();
  const DeltaForm form{true, s.tiled, step_bias, log_decay};
  if (rows.size(1) == 1 && places.memory.state.defined() && !kernel.bias.defined())
    return delta_net_step(rows, kernel.weight, decay_rows, beta_rows, places.inputs.state, places.memory, form);
  const Tensor mixed = kernel.forward(rows, true, places.inputs);
  const auto heads_of = [&](std::int64_t begin, std::int64_t end, std::int64_t heads) {
    return mixed.slice(-1, begin, end).reshape({rows.size(0), rows.size(1), heads, -1});
  };
  return gated_delta_rule(heads_of(0, keys, s.key_heads), heads_of(keys, 2 * keys, s.key_heads),
                          heads_of(2 * keys, all, s.heads), decay_rows, beta_rows, places.memory, form);
}

void DeltaMixer::take_up_held(const DecoderCache& cache) const {
  const StateConfig& s = config_.state;
  const TensorList parts =
      cache.states[index_].held.split({config_.state_channels(MixerKind::delta), s.heads, s.heads}, -1);
  attend(parts[0], parts[1], parts[2], places_in(&cache, index_, true));
}

Tensor DeltaMixer::forward(const Tensor& x, const DecoderCache* cache) const {
  const StateConfig& s = config_.state;
  const ProjectionMode mode = state_mode(cache);
  const std::int64_t batch = x.size(0), steps = x.size(1), all = 2 * s.key_rows() + s.value_rows();
  // While a text is generated, one dispatch computes all four products of a few rows. Narrow ones are first: a GPU
  // computes them beside the others.
  enum { kBetaPart, kDecayPart, kRowsPart, kGatePart };
  const std::int64_t sizes[] = {s.heads, s.heads, all, s.value_rows()};
  TensorList parts(4);
  parts[kBetaPart] = beta(x, mode);
  parts[kDecayPart] = decay(x, mode);
  parts[kRowsPart] = qkv(x, mode);
  parts[kGatePart] = gate(x, mode);
  if (cache != nullptr && batch * steps <= kFewRows) {
    const Tensor joined = cat(parts, -1);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts.size(); at += sizes[i++]) parts[i] = joined.slice(-1, at, at + sizes[i]);
  }
  const StatePlaces places = hold(cache, index_, {parts[kRowsPart], parts[kDecayPart], parts[kBetaPart]});
  const Tensor y = attend(parts[kRowsPart], parts[kDecayPart], parts[kBetaPart], places);
  const Tensor normed = normalization::gated_rms_norm(y, norm.weight, norm.eps, parts[kGatePart].reshape(y.shape()));
  return output(normed.reshape({batch, steps, s.value_rows()}), mode);
}

MambaMixer::MambaMixer(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer)
    : input(weights, name + ".input", config.width,
            config.state.value_rows() + config.state_channels(MixerKind::mamba) + config.state.heads,
            config.state.input_bias),
      kernel(weights, name + ".kernel", config, config.state_channels(MixerKind::mamba)),
      log_decay(weights.vector(name + ".log_decay", config.state.heads)),
      step_bias(weights.vector(name + ".step_bias", config.state.heads)),
      skip(weights.vector(name + ".skip", config.state.heads)),
      norm(config.state.norm ? std::make_unique<Norm>(weights, name + ".norm", NormKind::rms, config.state.value_rows(),
                                                      config.norm_eps)
                             : nullptr),
      output(weights, name + ".output", config.state.value_rows(), config.width, config.state.output_bias),
      config_(config),
      index_(layer) {
  register_module("input", input);
  register_module("kernel", kernel);
  register_parameter("log_decay", &MambaMixer::log_decay);
  register_parameter("step_bias", &MambaMixer::step_bias);
  register_parameter("skip", &MambaMixer::skip);
  if (norm) register_module("norm", *norm);
  register_module("output", output);
  const StateConfig& s = config.state;
  if (std::all_of(std::begin(s.part_scales), std::end(s.part_scales), [](double scale) { return scale == 1; })) return;
  std::vector<float> scales;
  const std::int64_t sizes[] = {s.value_rows(), s.value_rows(), s.key_rows(), s.key_rows(), s.heads};
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    scales.insert(scales.end(), static_cast<std::size_t>(sizes[i]), static_cast<float>(s.part_scales[i]));
  scales_ = from_vector(scales);
}

Tensor MambaMixer::row_factors() const {
  const double own = config_.state.input_scale;
  if (!scales_.defined()) return own == 1 ? Tensor() : full({1}, own);
  return scales_.to(kCPU, f32).unsqueeze(1) * own;
}

/// @param rows of `input`
Tensor MambaMixer::scaled(const Tensor& rows) const {
  if (!scales_.defined()) return rows;
  if (scales_.device() != rows.device()) {
    const NotCaptured now;
    scales_ = scales_.to(rows.device());
  }
  return rows * scales_.to(rows.dtype());
}

/// @param y, gate [B, T, heads · value_size]
Tensor MambaMixer::gated(const Tensor& y, const Tensor& gate) const {
  if (!norm) return y * silu(gate);
  const StateConfig& s = config_.state;
  const auto normed = [&](const Tensor& x) {
    if (s.norm_groups == 1) return (*norm)(x);
    const Tensor groups = rms_norm(x.reshape({x.size(0), x.size(1), s.norm_groups, -1}), {}, norm->eps);
    return groups.reshape(x.shape()) * norm->weight;
  };
  return s.norm_before_gate ? normed(y) * silu(gate) : normed(y * silu(gate));
}

/// What heads find, [B, T, heads, value_size]. @param rows in front of the convolution, [B, T, channels]
/// @param time [B, T, heads], before softplus
Tensor MambaMixer::scan(const Tensor& rows, const Tensor& time, const StatePlaces& places) const {
  const StateConfig& s = config_.state;
  const std::int64_t values = s.value_rows(), keys = s.key_rows(), channels = values + 2 * keys;
  const Tensor mixed = kernel.forward(rows, true, places.inputs);
  const auto heads_of = [&](std::int64_t begin, std::int64_t end, std::int64_t heads) {
    return mixed.slice(-1, begin, end).reshape({rows.size(0), rows.size(1), heads, -1});
  };
  Tensor passed = positive_steps(time, step_bias);
  if (s.least_step > 0 || s.largest_step < 1e30) passed = clamp(passed, s.least_step, s.largest_step);
  return state_space_scan(heads_of(0, values, s.heads), passed, -exp(log_decay),
                          heads_of(values, values + keys, s.key_heads), heads_of(values + keys, channels, s.key_heads),
                          skip, places.memory);
}

void MambaMixer::take_up_held(const DecoderCache& cache) const {
  const TensorList parts =
      cache.states[index_].held.split({config_.state_channels(MixerKind::mamba), config_.state.heads}, -1);
  scan(parts[0], parts[1], places_in(&cache, index_, true));
}

Tensor MambaMixer::forward(const Tensor& x, const DecoderCache* cache) const {
  const StateConfig& s = config_.state;
  const ProjectionMode mode = state_mode(cache);
  const std::int64_t batch = x.size(0), steps = x.size(1), values = s.value_rows(),
                     channels = config_.state_channels(MixerKind::mamba);
  const Tensor parts = scaled(input(s.input_scale == 1 ? x : x * s.input_scale, mode));
  const Tensor rows = parts.slice(-1, values, values + channels),
               time = parts.slice(-1, values + channels, parts.size(-1));
  const Tensor y = scan(rows, time, hold(cache, index_, {rows, time}));
  const Tensor result = output(gated(y.reshape({batch, steps, values}), parts.slice(-1, 0, values)), mode);
  return s.output_scale == 1 ? result : result * s.output_scale;
}

ConvolutionMixer::ConvolutionMixer(Weights& weights, const std::string& name, const DecoderConfig& config,
                                   std::int64_t layer)
    : input(weights, name + ".input", config.width, 3 * config.width, config.state.input_bias),
      kernel(weights, name + ".kernel", config, config.width),
      output(weights, name + ".output", config.width, config.width, config.state.output_bias),
      index_(layer) {
  register_module("input", input);
  register_module("kernel", kernel);
  register_module("output", output);
}

Tensor ConvolutionMixer::forward(const Tensor& x, const DecoderCache* cache) const {
  const ProjectionMode mode = state_mode(cache);
  const TensorList parts = input(x, mode).chunk(3, -1);
  const Tensor rows = parts[0] * parts[2];
  const Tensor y = kernel.forward(rows, false, hold(cache, index_, {rows}).inputs);
  return output(parts[1] * y, mode);
}

void ConvolutionMixer::take_up_held(const DecoderCache& cache) const {
  kernel.forward(cache.states[index_].held, false, places_in(&cache, index_, true).inputs);
}

void take_up_held(const DecoderBlock& block, const DecoderCache& cache) {
  const fusion::OnCpu on_cpu(block.device());
  if (block.delta) block.delta->take_up_held(cache);
  if (block.mamba) block.mamba->take_up_held(cache);
  if (block.convolution) block.convolution->take_up_held(cache);
}

}  // namespace etna::models
