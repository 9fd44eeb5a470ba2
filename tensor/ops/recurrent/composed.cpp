#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>

// The recurrence and its gradient, step by step in base ops: the reference for the kernels, and the path of second
// derivatives.
namespace etna::recurrent {
namespace {

Tensor converted(const Tensor& x, DType t) { return x.defined() ? x.to(t) : x; }

/// [B, 1], true where step t is valid; undefined if all are.
Tensor valid_at(const Tensor& lengths, std::int64_t t) {
  return lengths.defined() ? gt(lengths, static_cast<double>(t)).unsqueeze(1) : lengths;
}
/// a where the step is valid, else b.
Tensor pick(const Tensor& valid, const Tensor& a, const Tensor& b) { return valid.defined() ? where(valid, a, b) : a; }
Tensor or_zero(const Tensor& valid, const Tensor& a) { return valid.defined() ? where(valid, a, 0.0) : a; }

Tensor add_defined(const Tensor& a, const Tensor& b) { return !a.defined() ? b : b.defined() ? a + b : a; }
Tensor select_defined(const Tensor& x, std::int64_t t) { return x.defined() ? x.select(0, t) : x; }

struct Step {
  Tensor h, c, saved;
};

Step recurrent_composed_step(RecurrentMode mode, const Tensor& input, const Tensor& hidden, const Tensor& h,
                             const Tensor& c) {
  if (mode == RecurrentMode::rnn_tanh) return {tanh(input + hidden), {}, {}};
  if (mode == RecurrentMode::rnn_relu) return {relu(input + hidden), {}, {}};
  if (mode == RecurrentMode::gru) {
    const TensorList x = input.chunk(3, 1), y = hidden.chunk(3, 1);
    const Tensor r = sigmoid(x[0] + y[0]), z = sigmoid(x[1] + y[1]), n = tanh(x[2] + r * y[2]);
    return {n + z * (h - n), {}, cat({r, z, n, y[2]}, 1)};
  }
  const TensorList gate = (input + hidden).chunk(4, 1);
  const Tensor i = sigmoid(gate[0]), f = sigmoid(gate[1]), g = tanh(gate[2]), o = sigmoid(gate[3]);
  const Tensor cell = f * c + i * g;
  return {o * tanh(cell), cell, cat({i, f, g, o}, 1)};
}

/// The gradients that a step passes back: of the gates, of the recurrent part, and of h and c before the step.
struct Back {
  Tensor gates, hidden, h, c;
};

/// @param dh, dc gradients of the step's h and c  @param dsaved of the saved blocks, or undefined
Back back(RecurrentMode mode, const Tensor& saved, const Tensor& dsaved, const Tensor& h, const Tensor& c,
          const Tensor& h_before, const Tensor& c_before, const Tensor& dh, const Tensor& dc) {
  if (mode == RecurrentMode::rnn_tanh) {
    const Tensor d = dh * (1.0 - h * h);
    return {d, d, {}, {}};
  }
  if (mode == RecurrentMode::rnn_relu) {
    const Tensor d = where(gt(h, 0.0), dh, 0.0);
    return {d, d, {}, {}};
  }
  const TensorList s = saved.chunk(4, 1);
  TensorList extra(4);
  if (dsaved.defined()) extra = dsaved.chunk(4, 1);
  if (mode == RecurrentMode::gru) {
    const Tensor &r = s[0], &z = s[1], &n = s[2], &q = s[3];
    const Tensor dn = add_defined(dh * (1.0 - z), extra[2]) * (1.0 - n * n);
    const Tensor dz = add_defined(dh * (h_before - n), extra[1]) * z * (1.0 - z);
    const Tensor dr = add_defined(dn * q, extra[0]) * r * (1.0 - r);
    return {cat({dr, dz, dn}, 1), cat({dr, dz, add_defined(dn * r, extra[3])}, 1), dh * z, {}};
  }
  const Tensor &i = s[0], &f = s[1], &g = s[2], &o = s[3], y = tanh(c);
  const Tensor cell = dc + dh * o * (1.0 - y * y);
  const Tensor di = add_defined(cell * g, extra[0]) * i * (1.0 - i);
  const Tensor df = add_defined(cell * c_before, extra[1]) * f * (1.0 - f);
  const Tensor dg = add_defined(cell * i, extra[2]) * (1.0 - g * g);
  const Tensor d_o = add_defined(dh * y, extra[3]) * o * (1.0 - o);
  const Tensor d = cat({di, df, dg, d_o}, 1);
  return {d, d, {}, cell * f};
}

}  // namespace

TensorList recurrent_reference(const OpCall& call) {
  const auto a = call.as<RecurrentAttrs>();
  const DType t = call.in[kGates].dtype(), row = row_dtype(t);
  const Tensor gates = call.in[kGates].to(row), weight = call.in[kWeight].to(row), &lengths = call.in[kLengths];
  const Tensor bias = converted(call.in[kBias], row);
  Tensor h = call.in[kH0].to(row), c = converted(call.in[kC0], row);
  const std::int64_t steps = gates.size(0);
  TensorList states(static_cast<std::size_t>(steps)), cells = states, saved = states;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t at = step_at(i, steps, a.reverse);
    const auto slot = static_cast<std::size_t>(at);
    const Tensor valid = valid_at(lengths, at);
    const Step y = recurrent_composed_step(a.mode, gates.select(0, at), linear(h, weight, bias), h, c);
    states[slot] = h = pick(valid, y.h, h);
    if (c.defined()) cells[slot] = c = pick(valid, y.c, c);
    if (y.saved.defined()) saved[slot] = or_zero(valid, y.saved);
  }
  Outputs out;
  out.states = stack(states).to(t);
  if (c.defined()) out.cells = stack(cells);
  if (a.keeps && saved_blocks(a.mode) > 0) out.saved = stack(saved).to(t);
  return out.list();
}

TensorList recurrent_backward_reference(const OpCall& call) {
  const auto a = call.as<RecurrentAttrs>();
  const DType t = call.in[kStates].dtype(), row = row_dtype(t);
  TensorList in(call.in.begin(), call.in.end());
  for (int i = 0; i < kBackwardInputs; ++i) {
    if (i != kSteps) in[static_cast<std::size_t>(i)] = converted(in[static_cast<std::size_t>(i)], row);
  }
  const Tensor &states = in[kStates], &cells = in[kCells];
  const bool lstm = a.mode == RecurrentMode::lstm;
  const std::int64_t steps = states.size(0);
  Tensor dh = zeros_like(in[kInitialH]).detach(), dc = lstm ? dh : Tensor();
  TensorList gates(static_cast<std::size_t>(steps)), hidden = gates;
  for (std::int64_t i = steps - 1; i >= 0; --i) {
    const std::int64_t at = step_at(i, steps, a.reverse), before = step_at(i - 1, steps, a.reverse);
    const auto slot = static_cast<std::size_t>(at);
    const Tensor valid = valid_at(in[kSteps], at);
    const Tensor h_before = i > 0 ? states.select(0, before) : in[kInitialH];
    const Tensor c_before = !lstm ? Tensor() : i > 0 ? cells.select(0, before) : in[kInitialC];
    dh = add_defined(dh, select_defined(in[kStatesGrad], at));
    if (lstm) dc = add_defined(dc, select_defined(in[kCellsGrad], at));
    const Back y = back(a.mode, select_defined(in[kSaved], at), select_defined(in[kSavedGrad], at),
                        states.select(0, at), select_defined(cells, at), h_before, c_before, dh, dc);
    gates[slot] = or_zero(valid, y.gates), hidden[slot] = or_zero(valid, y.hidden);
    dh = pick(valid, add_defined(matmul(y.hidden, in[kHiddenWeight]), y.h), dh);
    if (lstm) dc = pick(valid, y.c, dc);
  }
  Gradients out;
  out.gates = stack(gates).to(t), out.h0 = dh.to(t);
  if (lstm) out.c0 = dc;
  if (a.mode == RecurrentMode::gru) out.hidden = stack(hidden).to(t);
  return out.list();
}

}  // namespace etna::recurrent
