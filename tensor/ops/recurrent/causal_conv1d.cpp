#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>
#include <etna/tensor/ops/recurrent/internal/states.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// causal_conv1d: a depthwise convolution over the last steps, which may begin from those of earlier calls.
namespace etna {
namespace {

using namespace recurrent;

enum ConvolutionInput { kConvolutionX, kConvolutionWeight, kConvolutionBias, kConvolutionPlaces };

struct CausalConv1dAttrs {
  bool silu = false;
  bool updates = true;  ///< the state
};

std::vector<OutputSpec> causal_conv1d_infer(const OpCall& call) {
  const Tensor &x = call.in[kConvolutionX], &weight = call.in[kConvolutionWeight], &bias = call.in[kConvolutionBias];
  const char* op = call.op.name;
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", op, name(x.dtype())));
  if (x.dim() != 3) throw ShapeError(fmt::format("{}: x is {}; wanted [B, T, C]", op, str(x.shape())));
  const std::int64_t channels = x.size(2);
  if (weight.dim() != 2 || weight.size(0) != channels || weight.size(1) < 1 || weight.size(1) > kMostConvolution) {
    throw ShapeError(fmt::format("{}: the weight is {}; wanted [{}, K] with K from 1 to {}", op, str(weight.shape()),
                                 channels, kMostConvolution));
  }
  if (bias.defined() && bias.shape() != Shape{channels})
    throw ShapeError(fmt::format("{}: the bias is {}; wanted [{}]", op, str(bias.shape()), channels));
  const StateRows places = state_rows_of(call, kConvolutionPlaces);
  const DType row = row_dtype(x.dtype());
  check_places(call, places, x.size(0), {weight.size(1), channels}, row);
  std::vector<OutputSpec> specs = {{x.shape(), x.dtype()}};
  if (places.state.defined() && call.as<CausalConv1dAttrs>().updates)
    specs.push_back({places.state.shape(), row, kConvolutionPlaces + static_cast<int>(kState)});
  return specs;
}

TensorList causal_conv1d_reference(const OpCall& call) {
  const Tensor &x = call.in[kConvolutionX], &weight = call.in[kConvolutionWeight], &bias = call.in[kConvolutionBias];
  const StateRows places = state_rows_of(call, kConvolutionPlaces);
  const std::int64_t batch = x.size(0), steps = x.size(1), channels = x.size(2), taps = weight.size(1);
  const DType row = row_dtype(x.dtype());
  const auto in_rows = [&](const Tensor& each) { return each.unsqueeze(2).expand({batch, each.size(1), channels}); };
  // From 0 on, made on the device, to which arange() would upload them.
  const Tensor places_of_taps = cumsum(ones({1, taps}, {i64, x.device()}), 1) - 1.0;
  const Tensor state = own_states(places, batch, {taps, channels}, {row, x.device()});
  Tensor before = zeros({batch, taps - 1, channels}, {row, x.device()});
  if (places.state.defined()) {
    const Tensor past = places.positions.to(i64).unsqueeze(1) + places_of_taps.slice(1, 1, taps) - double(taps);
    before = gather(state, 1, in_rows(past % double(taps))).where(in_rows(past >= 0.0), 0.0);
  }
  const Tensor all = cat({before, x.to(row)}, 1);
  Tensor sum;
  for (std::int64_t k = 0; k < taps; ++k) {
    const Tensor term = all.slice(1, k, k + steps) * weight.select(1, k);
    sum = sum.defined() ? sum + term : term;
  }
  if (bias.defined()) sum = sum + bias;
  if (call.as<CausalConv1dAttrs>().silu) sum = silu(sum);
  if (!places.state.defined()) return {sum.to(x.dtype())};
  const Tensor counted = counted_steps(places, steps, x.device());
  const Tensor y = sum.where(counted.unsqueeze(2), 0.0).to(x.dtype());
  if (!call.as<CausalConv1dAttrs>().updates) return {y};
  // The newest step of each place, counted from the first one of this call: below 0 it is there already.
  const Tensor last = counted.to(i64).sum(1, true) - 1.0;
  const Tensor step = last - (places.positions.to(i64).unsqueeze(1) + last - places_of_taps) % double(taps);
  const Tensor from = (step + double(taps)).where(step >= 0.0, places_of_taps.expand(step.shape()));
  const Tensor taken = gather(cat({state, x.to(row)}, 1), 1, in_rows(from));
  return {y, replaced_states(places, taken, counted)};
}

/// The inputs of a step and of those before it, and what they are multiplied by.
template <typename T>
struct CausalConvolution {
  const T *x, *state, *weight, *bias;  ///< x [T, C], state [K, C] or null: 0, weight [K, C], bias [C] or null
  std::int64_t channels, taps, position;
  bool silu;

  /// Null where it counts as 0. @param step from 1 - K on
  const T* input(std::int64_t step) const {
    if (step >= 0) return x + step * channels;
    if (state == nullptr || position + step < 0) return nullptr;
    return state + (position + step) % taps * channels;
  }
  void output(std::int64_t step, T* y) const {
    if (bias == nullptr)
      std::fill_n(y, channels, T(0));
    else
      std::copy_n(bias, channels, y);
    for (std::int64_t k = 0; k < taps; ++k) {
      const T *from = input(step - taps + 1 + k), *by = weight + k * channels;
      if (from == nullptr) continue;
      for (std::int64_t c = 0; c < channels; ++c) y[c] += by[c] * from[c];
    }
    if (silu) cpu::activate(Activation::silu, y, y, channels);
  }
  void update(std::int64_t count, T* to) const {
    for (std::int64_t step = std::max<std::int64_t>(0, count - taps); step < count; ++step)
      std::copy_n(x + step * channels, channels, to + (position + step) % taps * channels);
  }
};

void causal_conv1d_cpu(const OpCall& call, std::span<Tensor> out) {
  const StateRows places = state_rows_of(call, kConvolutionPlaces);
  const Tensor &given = call.in[kConvolutionX], &bias = call.in[kConvolutionBias];
  const std::int64_t batch = given.size(0), steps = given.size(1), channels = given.size(2);
  if (given.numel() == 0) return;
  const DType row = row_dtype(given.dtype());
  const Tensor x = given.to(row).contiguous(), weight = call.in[kConvolutionWeight].t().contiguous();
  const Tensor shift = bias.defined() ? bias.contiguous() : Tensor();
  const bool updates = out.size() > 1;
  const std::vector<std::int64_t> counts = step_counts(places, batch, steps);
  const auto work = [&]<typename T>(T) {
    std::vector<T*> states(static_cast<std::size_t>(batch), nullptr);
    std::vector<CausalConvolution<T>> each;
    for (std::int64_t b = 0; b < batch; ++b) {
      T*& state = states[static_cast<std::size_t>(b)];
      if (places.state.defined() && counts[static_cast<std::size_t>(b)] > 0)
        state = places.state.template host<T>() + state_row(call, places, b) * weight.size(0) * channels;
      each.push_back({x.template host<T>() + b * steps * channels, state, weight.template host<T>(),
                      shift.defined() ? shift.template host<T>() : nullptr, channels, weight.size(0),
                      position_of(places, b), call.as<CausalConv1dAttrs>().silu});
    }
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / (channels * weight.size(0)));
    cpu::parallel_for(batch * steps, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> y(static_cast<std::size_t>(channels));
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t b = r / steps, step = r % steps;
        if (step < counts[static_cast<std::size_t>(b)])
          each[static_cast<std::size_t>(b)].output(step, y.data());
        else
          std::fill_n(y.data(), channels, T(0));
        rows::write(out[0], r * channels, 1, channels, y.data());
      }
    });
    for (std::size_t b = 0; updates && b < states.size(); ++b)
      if (states[b] != nullptr) each[b].update(counts[b], states[b]);
  };
  row == f64 ? work(double{}) : work(float{});
}

bool causal_conv1d_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  constexpr std::int64_t kChunk = 16;
  const StateRows places = state_rows_of(call, kConvolutionPlaces);
  const auto [x, pitch] = pitched(call.in[kConvolutionX]);
  const Tensor weight = call.in[kConvolutionWeight].contiguous();
  const std::int64_t batch = x.size(0), steps = x.size(1), channels = x.size(2), chunks = (steps + kChunk - 1) / kChunk;
  const bool kept = places.state.defined(), updates = out.size() > 1;
  const auto dense = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
  gpu::Kernel(shaders::causal_conv1d, call)
      .on(out[0].device())
      .spec(x.dtype(), weight.size(1), call.as<CausalConv1dAttrs>().silu, call.in[kConvolutionBias].defined(), kept,
            places.counts.defined(), updates)
      .read(x)
      .read(weight)
      .read(dense(call.in[kConvolutionBias]))
      .arguments(state_argument(places, updates))
      .read(dense(places.rows))
      .read(dense(places.positions))
      .read(dense(places.counts))
      .index_errors()
      .write(out[0])
      .u32(batch, steps, channels, pitch, kept ? places.state.size(0) : 0)
      .dispatch(gpu::grid(batch * chunks * channels, 64));
  return true;
}

const OpDef kCausalConv1d = {.name = "causal_conv1d",
                             .infer = causal_conv1d_infer,
                             .cpu = causal_conv1d_cpu,
                             .gpu = causal_conv1d_gpu,
                             .reference = causal_conv1d_reference,
                             .saved = Saved::inputs};

}  // namespace

Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool silu, const StateRows& places) {
  detail::require_defined("causal_conv1d", x, weight);
  const DType row = recurrent::row_dtype(x.dtype());
  TensorList inputs = {x, weight.to(row), bias.defined() ? bias.to(row) : bias};
  recurrent::add_places(inputs, places);
  return etna::apply(kCausalConv1d, std::span<const Tensor>(inputs),
                     Attrs::of(CausalConv1dAttrs{silu, places.updated}))[0];
}

std::span<const OpDef* const> ops_in_causal_conv1d() {
  static const OpDef* const list[] = {&kCausalConv1d};
  return list;
}

}  // namespace etna
