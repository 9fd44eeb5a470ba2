#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

// delta_net_step: the convolution and the gated delta rule of one step, which a GPU computes in one dispatch.
namespace etna {
namespace {

using namespace recurrent;

enum DeltaStepInput {
  kStepX,
  kStepWeight,
  kStepDecay,
  kStepBeta,
  kStepStepBias,
  kStepLogDecay,
  kStepInputs,  ///< the convolution's state
  kStepPlaces
};

/// The rule's state.
constexpr std::size_t kStepMemory = static_cast<std::size_t>(kStepPlaces) + kState;

struct DeltaStepAttrs {
  bool normalize = false, tiled = false;
  bool updates = true;  ///< the states
};

struct DeltaStepSizes {
  std::int64_t batch, channels, taps, heads, key, value, key_heads;

  explicit DeltaStepSizes(const OpCall& call)
      : batch(call.in[kStepX].size(0)),
        channels(call.in[kStepX].size(2)),
        taps(call.in[kStepWeight].size(1)),
        heads(memory(call).size(1)),
        key(memory(call).size(2)),
        value(memory(call).size(3)),
        key_heads((channels - heads * value) / std::max<std::int64_t>(1, 2 * key)) {}

 private:
  static const Tensor& memory(const OpCall& call) { return call.in[kStepMemory]; }
};

std::vector<OutputSpec> delta_net_step_infer(const OpCall& call) {
  const Tensor &x = call.in[kStepX], &weight = call.in[kStepWeight], &memory = call.in[kStepMemory];
  const char* op = call.op.name;
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", op, name(x.dtype())));
  if (x.dim() != 3 || x.size(1) != 1 || weight.dim() != 2 || memory.dim() != 4) {
    throw ShapeError(
        fmt::format("{}: x is {}, the weight {} and the memory {}; wanted [B, 1, C], [C, K] and [S, H, N, P]", op,
                    str(x.shape()), str(weight.shape()), str(memory.shape())));
  }
  const DeltaStepSizes s(call);
  const bool heads = s.key > 0 && s.key_heads > 0 && s.heads % s.key_heads == 0;
  if (!heads || 2 * s.key_heads * s.key + s.heads * s.value != s.channels) {
    throw ShapeError(fmt::format("{}: x is {} beside a memory of {}; wanted [B, 1, 2·G·N + H·P], where G divides H", op,
                                 str(x.shape()), str(memory.shape())));
  }
  if (weight.size(0) != s.channels || s.taps < 1 || s.taps > kMostConvolution)
    throw ShapeError(fmt::format("{}: the weight is {}; wanted [{}, K] with K from 1 to {}", op, str(weight.shape()),
                                 s.channels, kMostConvolution));
  const DType row = row_dtype(x.dtype());
  for (const auto& [what, t, shape] : {std::tuple{"g", call.in[kStepDecay], Shape{s.batch, 1, s.heads}},
                                       std::tuple{"beta", call.in[kStepBeta], Shape{s.batch, 1, s.heads}},
                                       std::tuple{"step_bias", call.in[kStepStepBias], Shape{s.heads}},
                                       std::tuple{"log_decay", call.in[kStepLogDecay], Shape{s.heads}}}) {
    if (t.shape() != shape || t.dtype() != row)
      throw ShapeError(fmt::format("{}: {} is {} {}; wanted {} {}", op, what, name(t.dtype()), str(t.shape()),
                                   name(row), str(shape)));
  }
  StateRows places = state_rows_of(call, kStepPlaces);
  check_places(call, places, s.batch, {s.heads, s.key, s.value}, row);
  places.state = call.in[kStepInputs];
  check_places(call, places, s.batch, {s.taps, s.channels}, row);
  std::vector<OutputSpec> specs = {{{s.batch, 1, s.heads, s.value}, x.dtype()}};
  if (!call.as<DeltaStepAttrs>().updates) return specs;
  specs.push_back({memory.shape(), row, static_cast<int>(kStepMemory)});
  specs.push_back({places.state.shape(), row, static_cast<int>(kStepInputs)});
  return specs;
}

/// y by two ops; the states given are updated in place.
Tensor by_two_ops(const OpCall& call, const Tensor& memory_state, const Tensor& inputs_state) {
  const auto form = call.as<DeltaStepAttrs>();
  const DeltaStepSizes s(call);
  StateRows memory = state_rows_of(call, kStepPlaces), inputs = memory;
  memory.state = memory_state;
  inputs.state = inputs_state;
  memory.updated = inputs.updated = form.updates;
  const Tensor mixed = causal_conv1d(call.in[kStepX], call.in[kStepWeight], {}, true, inputs);
  const std::int64_t keys = s.key_heads * s.key;
  const auto heads_of = [&](std::int64_t begin, std::int64_t heads, std::int64_t size) {
    return mixed.slice(-1, begin, begin + heads * size).reshape({s.batch, 1, heads, size});
  };
  return gated_delta_rule(heads_of(0, s.key_heads, s.key), heads_of(keys, s.key_heads, s.key),
                          heads_of(2 * keys, s.heads, s.value), call.in[kStepDecay], call.in[kStepBeta], memory,
                          {form.normalize, form.tiled, call.in[kStepStepBias], call.in[kStepLogDecay]});
}

TensorList delta_net_step_reference(const OpCall& call) {
  const Tensor memory = call.in[kStepMemory].clone(), inputs = call.in[kStepInputs].clone();
  const Tensor y = by_two_ops(call, memory, inputs);
  return call.as<DeltaStepAttrs>().updates ? TensorList{y, memory, inputs} : TensorList{y};
}

void delta_net_step_cpu(const OpCall& call, std::span<Tensor> out) {
  out[0].copy_(by_two_ops(call, call.in[kStepMemory], call.in[kStepInputs]));
}

bool delta_net_step_gpu(const OpCall& call, std::span<Tensor> out) {
  constexpr std::int64_t kColumns = 16;
  const auto form = call.as<DeltaStepAttrs>();
  const DeltaStepSizes s(call);
  if (out[0].dtype() == f64 || s.key > kMostKey) return false;
  if (out[0].numel() == 0) return true;
  const StateRows places = state_rows_of(call, kStepPlaces), inputs = {call.in[kStepInputs]};
  const auto dense = [](const Tensor& x) { return x.defined() ? x.contiguous() : x; };
  const auto [x, pitch] = pitched(call.in[kStepX]);
  constexpr bool kIsDelta = true, kHasState = true, kHasGates = true;
  gpu::Kernel(shaders::gated_linear_attention, call)
      .on(out[0].device())
      .spec(x.dtype(), s.key, kIsDelta, kHasState, places.counts.defined())
      .spec(form.normalize, form.tiled, kHasGates, s.heads, s.key_heads, form.updates, s.taps)
      .read(x)
      .read(dense(call.in[kStepWeight]))
      .arguments(state_argument(inputs, form.updates))
      .read(dense(call.in[kStepDecay]))
      .read(dense(call.in[kStepBeta]))
      .read(dense(call.in[kStepStepBias]))
      .read(dense(call.in[kStepLogDecay]))
      .arguments(state_argument(places, form.updates))
      .read(dense(places.rows))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .index_errors()
      .write(out[0])
      .u32(1, s.value)
      .u32(pitch, s.channels, 0, places.state.size(0))
      .dispatch({gpu::u32((s.value + kColumns - 1) / kColumns), gpu::u32(s.heads), gpu::u32(s.batch)});
  return true;
}

const OpDef kDeltaNetStep = {.name = "delta_net_step",
                             .infer = delta_net_step_infer,
                             .cpu = delta_net_step_cpu,
                             .gpu = delta_net_step_gpu,
                             .reference = delta_net_step_reference};

}  // namespace

Tensor delta_net_step(const Tensor& x, const Tensor& weight, const Tensor& g, const Tensor& beta, const Tensor& inputs,
                      const StateRows& memory, const DeltaForm& form) {
  detail::require_defined("delta_net_step", x, weight, g, beta, inputs, memory.state, form.step_bias, form.log_decay);
  const DType row = recurrent::row_dtype(x.dtype());
  TensorList all = {x, weight.to(row), g.to(row), beta.to(row), form.step_bias.to(row), form.log_decay.to(row), inputs};
  recurrent::add_places(all, memory);
  return etna::apply(kDeltaNetStep, std::span<const Tensor>(all),
                     Attrs::of(DeltaStepAttrs{form.normalize, form.tiled, memory.updated}))[0];
}

std::span<const OpDef* const> ops_in_delta_net_step() {
  static const OpDef* const list[] = {&kDeltaNetStep};
  return list;
}

}  // namespace etna
