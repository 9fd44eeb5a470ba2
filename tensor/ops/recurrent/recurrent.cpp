#include <etna/tensor/ops/recurrent/internal/recurrent.h>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>

// The definitions of recurrent and recurrent_backward, and the public functions.
namespace etna {

std::int64_t gates_of(RecurrentMode mode) {
  return mode == RecurrentMode::lstm ? 4 : mode == RecurrentMode::gru ? 3 : 1;
}

namespace recurrent {

Outputs::Outputs(std::span<const Tensor> out, const RecurrentAttrs& a) : states(out[0]) {
  const bool lstm = a.mode == RecurrentMode::lstm;
  if (lstm) cells = out[1];
  if (a.keeps && saved_blocks(a.mode) > 0) saved = out[lstm ? 2 : 1];
}
TensorList Outputs::list() const {
  TensorList all = {states};
  if (cells.defined()) all.push_back(cells);
  if (saved.defined()) all.push_back(saved);
  return all;
}

Gradients::Gradients(std::span<const Tensor> out, const RecurrentAttrs& a) : gates(out[0]), h0(out[1]) {
  if (a.mode == RecurrentMode::lstm) c0 = out[2];
  if (a.mode == RecurrentMode::gru) hidden = out[2];
}
TensorList Gradients::list() const {
  TensorList all = {gates, h0};
  if (c0.defined()) all.push_back(c0);
  if (hidden.defined()) all.push_back(hidden);
  return all;
}

namespace {

void check_dtypes(const OpCall& call) {
  const DType t = call.in[kGates].dtype();
  for (In i : {kGates, kH0, kWeight, kBias}) {
    const Tensor& x = call.in[i];
    if (x.defined() && (!is_floating(t) || x.dtype() != t)) {
      throw DtypeError(fmt::format("{}: input {} is {}, the gates are {}; all must be of one floating dtype",
                                   call.op.name, static_cast<int>(i), name(x.dtype()), name(t)));
    }
  }
  const Tensor& lengths = call.in[kLengths];
  if (lengths.defined() && lengths.dtype() != i64 && lengths.dtype() != i32)
    throw DtypeError(fmt::format("{}: the lengths are {}; wanted i64 or i32", call.op.name, name(lengths.dtype())));
}

void check_shape(const OpCall& call, const char* what, const Tensor& x, const Shape& wanted) {
  if (x.defined() && x.shape() != wanted) {
    throw ShapeError(fmt::format("{}: {} is {}, it must be {}", call.op.name, what, str(x.shape()), str(wanted)));
  }
}

std::vector<OutputSpec> recurrent_infer(const OpCall& call) {
  const auto a = call.as<RecurrentAttrs>();
  check_dtypes(call);
  const Tensor &gates = call.in[kGates], &weight = call.in[kWeight];
  const std::int64_t blocks = gates_of(a.mode);
  if (gates.dim() != 3 || gates.size(2) % blocks != 0) {
    throw ShapeError(
        fmt::format("{}: the gates are {}; wanted [T, B, {} · H]", call.op.name, str(gates.shape()), blocks));
  }
  if (gates.size(0) == 0) throw ShapeError(fmt::format("{}: the sequence has no steps", call.op.name));
  const std::int64_t steps = gates.size(0), batch = gates.size(1), width = gates.size(2), h = width / blocks;
  check_shape(call, "h0", call.in[kH0], {batch, h});
  check_shape(call, "c0", call.in[kC0], {batch, h});
  check_shape(call, "weight_hh", weight, {width, h});
  check_shape(call, "bias_hh", call.in[kBias], {width});
  check_shape(call, "lengths", call.in[kLengths], {batch});
  const DType t = gates.dtype();
  std::vector<OutputSpec> specs = {{{steps, batch, h}, t}};
  if (a.mode == RecurrentMode::lstm) specs.push_back({{steps, batch, h}, row_dtype(t)});
  if (a.keeps && saved_blocks(a.mode) > 0) {
    specs.push_back({{steps, batch, checked_product(saved_blocks(a.mode), h, call.op.name)}, t});
  }
  for (const OutputSpec& spec : specs) numel(spec.shape, call.op.name);
  return specs;
}

std::vector<OutputSpec> recurrent_backward_infer(const OpCall& call) {
  const auto a = call.as<RecurrentAttrs>();
  const Tensor &states = call.in[kStates], &weight = call.in[kHiddenWeight], &h0 = call.in[kInitialH];
  const Shape gates = {states.size(0), states.size(1), weight.size(0)};
  std::vector<OutputSpec> specs = {{gates, states.dtype()}, {h0.shape(), states.dtype()}};
  if (a.mode == RecurrentMode::lstm) specs.push_back({h0.shape(), row_dtype(states.dtype())});
  if (a.mode == RecurrentMode::gru) specs.push_back({gates, states.dtype()});
  return specs;
}

const OpDef kRecurrentBackward = {.name = "recurrent_backward",
                                  .infer = recurrent_backward_infer,
                                  .cpu = recurrent_backward_cpu,
                                  .gpu = recurrent_backward_gpu,
                                  .reference = recurrent_backward_reference};

/// Σ over steps of (gradient of the gates)ᵀ · (state before the step). The first step's state is h0; all others are one
/// gemm.
Tensor weight_gradient(const Tensor& gates, const Tensor& states, const Tensor& h0, bool reverse) {
  const std::int64_t steps = states.size(0), first = reverse ? steps - 1 : 0;
  Tensor sum = gemm::weight_gradient(gates.select(0, first), h0);
  if (steps == 1) return sum;
  const std::int64_t from = reverse ? 0 : 1, of = 1 - from;
  return sum + gemm::weight_gradient(gates.slice(0, from, from + steps - 1), states.slice(0, of, of + steps - 1));
}

TensorList recurrent_vjp(const VjpCall& call) {
  const auto a = call.as<RecurrentAttrs>();
  const Outputs out(call.out, a), grad(call.grad, a);
  TensorList grads(kInputs);
  if (!grad.states.defined() && !grad.cells.defined() && !grad.saved.defined()) return grads;
  const Gradients found(apply(kRecurrentBackward,
                              {out.states, out.cells, out.saved, call.in[kH0], call.in[kC0], call.in[kWeight],
                               call.in[kLengths], grad.states, grad.cells, grad.saved},
                              call.attrs),
                        a);
  if (call.needs[kGates]) grads[kGates] = found.gates;
  if (call.needs[kH0]) grads[kH0] = found.h0;
  if (call.needs[kC0]) grads[kC0] = found.c0;
  if (call.needs[kWeight]) grads[kWeight] = weight_gradient(found.recurrent(), out.states, call.in[kH0], a.reverse);
  if (call.needs[kBias]) grads[kBias] = gemm::bias_gradient(found.recurrent());
  return grads;
}

const OpDef kRecurrent = {.name = "recurrent",
                          .infer = recurrent_infer,
                          .cpu = recurrent_cpu,
                          .gpu = recurrent_gpu,
                          .reference = recurrent_reference,
                          .vjp = recurrent_vjp,
                          .saved = Saved::both,
                          .saved_inputs = 1u << kH0 | 1u << kC0 | 1u << kWeight | 1u << kLengths};

/// True where a step is valid: [T, B, 1]. Compares step numbers on the device, in f32.
Tensor valid_steps(const Tensor& lengths, std::int64_t steps) {
  const Tensor count = cumsum(ones({steps}, {f32, lengths.device()}), 0);
  return le(count.unsqueeze(1), lengths.to(f32).unsqueeze(0)).unsqueeze(2);
}

/// An LSTM that projects its states before the next step reads them; runs step by step.
RecurrentLayer projected(const Tensor& gates, RecurrentState state, const RecurrentWeights& w, bool reverse,
                         const Tensor& lengths) {
  const std::int64_t steps = gates.size(0);
  const DType row = row_dtype(gates.dtype());
  const Tensor valid = lengths.defined() ? valid_steps(lengths, steps) : Tensor();
  TensorList outputs(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = step_at(i, steps, reverse);
    const TensorList gate = (gates.select(0, t) + linear(state.h, w.weight_hh, w.bias_hh)).chunk(4, 1);
    Tensor c = sigmoid(gate[1]).to(row) * state.c + (sigmoid(gate[0]) * tanh(gate[2])).to(row);
    Tensor h = linear(sigmoid(gate[3]) * tanh(c).to(gates.dtype()), w.weight_hr);
    if (valid.defined()) {
      const Tensor here = valid.select(0, t);
      outputs[static_cast<std::size_t>(t)] = where(here, h, 0.0);
      h = where(here, h, state.h), c = where(here, c, state.c);
    } else {
      outputs[static_cast<std::size_t>(t)] = h;
    }
    state = {h, c};
  }
  return {stack(outputs), state};
}

const char* name_of(RecurrentMode mode) {
  const char* names[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};
  return names[static_cast<std::size_t>(mode)];
}

/// weight is [blocks · H, K].
void check_weight(const char* mode, const char* what, const Tensor& weight, std::int64_t blocks, std::int64_t k) {
  if (weight.dim() == 2 && weight.size(0) % blocks == 0 && (k < 0 || weight.size(1) == k)) return;
  throw ShapeError(fmt::format("{}: {} is {}; wanted [{} · H, {}]", mode, what, str(weight.shape()), blocks,
                               k < 0 ? std::string("*") : std::to_string(k)));
}

RecurrentLayer layer(const Tensor& given, const RecurrentState& state, const RecurrentWeights& w, RecurrentMode mode,
                     bool reverse, const Tensor& lengths) {
  const char* name = name_of(mode);
  detail::require_defined(name, given, w.weight_ih, w.weight_hh);
  const std::int64_t blocks = gates_of(mode);
  if (given.dim() != 3) throw ShapeError(fmt::format("{}: x is {}; wanted [T, B, I]", name, str(given.shape())));
  if (given.size(0) == 0) throw ShapeError(fmt::format("{}: x {} has no steps", name, str(given.shape())));
  check_weight(name, "weight_ih", w.weight_ih, blocks, given.size(2));
  check_weight(name, "weight_hh", w.weight_hh, blocks, -1);
  TensorList all = {given, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, state.h, w.weight_hr};
  detail::bring_to_one_dtype(all, 1u << 3 | 1u << 4);
  const DType t = all[0].dtype();
  const auto as = [t](const Tensor& x) { return x.defined() && is_floating(x.dtype()) ? x.to(t) : x; };
  const bool lstm = mode == RecurrentMode::lstm;
  Tensor valid;
  if (lengths.defined()) {
    if (lengths.shape() != Shape{given.size(1)}) {
      throw ShapeError(fmt::format("{}: the lengths are {}, wanted {} for x {}", name, str(lengths.shape()),
                                   str(Shape{given.size(1)}), str(given.shape())));
    }
    // Invalid steps become 0: a gradient of 0 times an infinity in the padding would be NaN.
    valid = valid_steps(lengths, given.size(0));
    all[0] = where(valid, all[0], 0.0);
  }
  const std::int64_t batch = given.size(1), h = w.weight_ih.size(0) / blocks;
  const Tensor gates = linear(all[0], all[1], as(all[3]));
  if (!is_floating(t)) throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", name, etna::name(t)));
  RecurrentState from = {all[5], state.c};
  if (!from.h.defined()) from.h = zeros({batch, w.weight_hh.size(1)}, {t, given.device()});
  if (lstm) from.c = from.c.defined() ? from.c.to(row_dtype(t)) : zeros({batch, h}, {row_dtype(t), given.device()});
  if (w.weight_hr.defined()) {
    if (!lstm) throw ShapeError(fmt::format("{}: only lstm takes a projection", name));
    RecurrentLayer y = projected(gates, from, {all[1], all[2], as(all[3]), as(all[4]), all[6]}, reverse, lengths);
    y.state.c = y.state.c.to(t);
    return y;
  }
  const TensorList in = {gates, from.h, lstm ? from.c : Tensor(), all[2], as(all[4]), lengths};
  const RecurrentAttrs a{.mode = mode, .reverse = reverse, .keeps = grad_recorder().wants(in)};
  const Outputs out(apply(kRecurrent, in, Attrs::of(a)), a);
  const std::int64_t last = reverse ? 0 : given.size(0) - 1;
  RecurrentLayer y{out.states, {out.states.select(0, last), {}}};
  if (lstm) y.state.c = out.cells.select(0, last).to(t);
  if (valid.defined()) y.output = where(valid, y.output, 0.0);
  return y;
}

/// Runs one step; adds the time dimension and, if missing, the batch dimension.
RecurrentState cell_step(const Tensor& x, const RecurrentState& state, const RecurrentWeights& w, RecurrentMode mode) {
  const char* name = name_of(mode);
  detail::require_defined(name, x);
  if (x.dim() != 1 && x.dim() != 2) {
    throw ShapeError(fmt::format("{}: x of a single step is {}; wanted [B, I] or [I]", name, str(x.shape())));
  }
  const bool single = x.dim() == 1;
  const auto rows = [&](const Tensor& h) {
    if (!h.defined()) return h;
    if (h.dim() != x.dim()) {
      throw ShapeError(fmt::format("{}: x is {}, the state {}; wanted both with a batch or both without", name,
                                   str(x.shape()), str(h.shape())));
    }
    return single ? h.unsqueeze(0) : h;
  };
  const Tensor whole = single ? x.unsqueeze(0).unsqueeze(0) : x.unsqueeze(0);
  RecurrentState y = layer(whole, {rows(state.h), rows(state.c)}, w, mode, false, {}).state;
  if (single) {
    y.h = y.h.squeeze(0);
    if (y.c.defined()) y.c = y.c.squeeze(0);
  }
  return y;
}

}  // namespace
}  // namespace recurrent

RecurrentLayer recurrent_layer(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights,
                               RecurrentMode mode, bool reverse, const Tensor& lengths) {
  return recurrent::layer(x, state, weights, mode, reverse, lengths);
}

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return recurrent::cell_step(x, {h, {}}, weights, RecurrentMode::rnn_tanh).h;
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return recurrent::cell_step(x, {h, {}}, weights, RecurrentMode::rnn_relu).h;
}
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return recurrent::cell_step(x, {h, {}}, weights, RecurrentMode::gru).h;
}
RecurrentState lstm_cell(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights) {
  return recurrent::cell_step(x, state, weights, RecurrentMode::lstm);
}

std::span<const OpDef* const> ops_in_recurrent() {
  static const OpDef* const list[] = {&recurrent::kRecurrent, &recurrent::kRecurrentBackward};
  return list;
}

}  // namespace etna
