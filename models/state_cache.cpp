#include <etna/models/internal/state_cache.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna::models {
namespace {

/// Shapes of a row: the convolution's inputs, and the memory, empty where there is none.
std::pair<Shape, Shape> state_shapes(const DecoderConfig& config, MixerKind mixer, std::int64_t rows) {
  const StateConfig& s = config.state;
  const bool alone = mixer == MixerKind::convolution;
  return {Shape{rows, s.kernel, config.state_channels(mixer)},
          alone ? Shape{0} : Shape{rows, s.heads, s.key_size, s.value_size}};
}

/// Elements of a token that a state takes up: the convolution's inputs and, of each head, what its decay and the factor
/// of what it writes are made of.
std::int64_t held_elements(const DecoderConfig& config, MixerKind mixer) {
  const std::int64_t of_head = mixer == MixerKind::convolution ? 0 : mixer == MixerKind::delta ? 2 : 1;
  return config.state_channels(mixer) + of_head * config.state.heads;
}

}  // namespace

std::vector<LayerState> holding_states(const DecoderConfig& config, const LayerState* states, std::int64_t sequences,
                                       std::int64_t tokens) {
  std::vector<LayerState> all(states, states + config.layers);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    LayerState& state = all[static_cast<std::size_t>(i)];
    if (!state.inputs.defined()) continue;
    state.held = zeros({sequences, tokens, held_elements(config, config.layer(i).mixer)}, {f32, state.inputs.device()});
  }
  return all;
}

void copy_states(std::span<LayerState> layers, const Tensor& from, const Tensor& to) {
  Tensor sources = from, targets = to;
  for (LayerState& layer : layers) {
    for (Tensor* state : {&layer.inputs, &layer.memory}) {
      if (!state->defined() || state->numel() == 0) continue;
      if (sources.device() != state->device()) {  // once: layers on the CPU come first
        sources = sources.to(state->device());
        targets = targets.to(state->device());
      }
      state->index_put_({Index(targets)}, index_select(*state, 0, sources));
    }
  }
}

std::uint64_t held_bytes(const DecoderConfig& config, std::int64_t tokens) {
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const LayerConfig layer = config.layer(i);
    if (layer.has_state()) elements += held_elements(config, layer.mixer);
  }
  return static_cast<std::uint64_t>(checked_product(elements, tokens, "StateCache")) * sizeof(float);
}

StateCache::StateCache(const DecoderConfig& config, Device device, std::int64_t rows, std::int64_t host_layers)
    : rows_(rows) {
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const LayerConfig layer = config.layer(i);
    LayerState& state = layers_.emplace_back();
    if (!layer.has_state()) continue;
    const TensorOptions options{f32, i < host_layers ? kCPU : device};
    const auto [inputs, memory] = state_shapes(config, layer.mixer, rows);
    state.inputs = zeros(inputs, options);
    if (numel(memory) > 0) state.memory = zeros(memory, options);
  }
  for (std::int64_t i = rows; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t StateCache::take() {
  if (free_.empty()) return -1;
  const std::int32_t row = free_.back();
  free_.pop_back();
  return row;
}

void StateCache::copy(std::span<const std::int32_t> from, std::span<const std::int32_t> to) {
  if (from.empty()) return;
  const auto tensor = [](std::span<const std::int32_t> rows) {
    return from_vector(std::vector<std::int32_t>(rows.begin(), rows.end()));
  };
  copy_states(layers_, tensor(from), tensor(to));
}

std::uint64_t StateCache::bytes(const DecoderConfig& config, std::int64_t rows) {
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const LayerConfig layer = config.layer(i);
    if (!layer.has_state()) continue;
    const auto [inputs, memory] = state_shapes(config, layer.mixer, rows);
    elements += numel(inputs, "StateCache") + numel(memory, "StateCache");
  }
  return static_cast<std::uint64_t>(elements) * sizeof(float);
}

}  // namespace etna::models
