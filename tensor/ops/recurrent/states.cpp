#include <etna/tensor/ops/recurrent/internal/states.h>

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>

// The places of states, which ops of layers with a state share.
namespace etna::recurrent {
namespace {

/// [B, 1, ..., 1], to be broadcast over x [B, ...].
Tensor by_sequence(const Tensor& each, const Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[0] = each.size(0);
  return each.reshape(Shape(shape));
}

Shape with_batch(std::int64_t batch, const Shape& row) {
  std::vector<std::int64_t> shape(row.begin(), row.end());
  shape.insert(shape.begin(), batch);
  return Shape(shape);
}

}  // namespace

void add_places(TensorList& inputs, const StateRows& places) {
  inputs.insert(inputs.end(), {places.state, places.rows, places.positions, places.counts});
}

StateRows state_rows_of(const OpCall& call, std::size_t first) {
  return {call.in[first + kState], call.in[first + kStateRows], call.in[first + kStatePositions],
          call.in[first + kStateCounts]};
}

void check_places(const OpCall& call, const StateRows& places, std::int64_t batch, const Shape& wanted, DType row) {
  const char* op = call.op.name;
  const Tensor& state = places.state;
  if (!state.defined()) {
    if (places.rows.defined() || places.positions.defined() || places.counts.defined())
      throw ShapeError(fmt::format("{}: got places of states, but no state; give both or neither", op));
    return;
  }
  if (state.dtype() != row)
    throw DtypeError(fmt::format("{}: the state is {}; wanted {}", op, name(state.dtype()), name(row)));
  if (!state.is_contiguous()) throw ShapeError(fmt::format("{}: the state must be contiguous", op));
  const Shape all = with_batch(state.dim() > 0 ? state.size(0) : 0, wanted);
  if (state.shape() != all) {
    throw ShapeError(
        fmt::format("{}: the state is {}; wanted [S, ...] of rows {}", op, str(state.shape()), str(wanted)));
  }
  for (const auto& [what, x, needed] :
       {std::tuple{"rows of states", places.rows, true}, std::tuple{"positions", places.positions, true},
        std::tuple{"counts", places.counts, false}}) {
    if (!x.defined() && !needed) continue;
    if (!x.defined() || x.dtype() != i32 || x.shape() != Shape{batch}) {
      throw ShapeError(fmt::format("{}: the {} are {}; wanted i32 {}", op, what,
                                   x.defined() ? fmt::format("{} {}", name(x.dtype()), str(x.shape())) : "missing",
                                   str(Shape{batch})));
    }
  }
}

Arguments state_argument(const StateRows& places, bool updated) {
  Arguments argument;
  const Pointer state = gpu::pointer(places.state);
  updated ? argument.read_write(state) : argument.read(state);
  return argument;
}

std::vector<std::int64_t> step_counts(const StateRows& places, std::int64_t batch, std::int64_t steps) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(batch), steps);
  if (!places.state.defined()) return counts;
  const auto positions = places.positions.to_vector<std::int32_t>();
  const auto given = places.counts.defined() ? places.counts.to_vector<std::int32_t>() : std::vector<std::int32_t>();
  for (std::size_t b = 0; b < counts.size(); ++b) {
    if (!given.empty()) counts[b] = std::clamp<std::int64_t>(given[b], 0, steps);
    if (positions[b] < 0) counts[b] = 0;
  }
  return counts;
}

std::int64_t state_row(const OpCall& call, const StateRows& places, std::int64_t sequence) {
  const std::int64_t row = places.rows.contiguous().host<std::int32_t>()[sequence], most = places.state.size(0);
  if (row < 0 || row >= most)
    throw IndexError(fmt::format("{}: sequence {} has the state {} of {}", call.op.name, sequence, row, most));
  return row;
}

std::int64_t position_of(const StateRows& places, std::int64_t sequence) {
  return places.state.defined() ? places.positions.contiguous().host<std::int32_t>()[sequence] : 0;
}

Tensor counted_steps(const StateRows& places, std::int64_t steps, Device device) {
  // From one on, made on the device, to which arange() would upload them.
  const Tensor step = cumsum(ones({1, steps}, {i32, device}), 1);
  const Tensor active = (places.positions >= 0.0).unsqueeze(1);
  const Tensor counted = places.counts.defined() ? step <= places.counts.unsqueeze(1) : step > 0.0;
  return logical_and(active, counted);
}

Tensor own_states(const StateRows& places, std::int64_t batch, const Shape& wanted, const TensorOptions& options) {
  if (!places.state.defined() || places.state.size(0) == 0) return zeros(with_batch(batch, wanted), options);
  return index_select(places.state, 0, clamp(places.rows, 0.0, static_cast<double>(places.state.size(0) - 1)));
}

Tensor first_states(const StateRows& places, std::int64_t batch, const Shape& wanted, const TensorOptions& options) {
  const Tensor own = own_states(places, batch, wanted, options);
  return places.state.defined() ? own.where(by_sequence(places.positions > 0.0, own), 0.0) : own;
}

Tensor replaced_states(const StateRows& places, const Tensor& after, const Tensor& counted) {
  const Tensor& state = places.state;
  const std::int64_t states = state.size(0);
  if (states == 0 || after.size(0) == 0 || counted.size(1) == 0) return state.clone();
  // The first steps are those that count. The row of a sequence without any is another's, so it writes behind the end.
  const Tensor rows = places.rows.where(counted.select(1, 0), static_cast<double>(states));
  Tensor all = cat({state, state.slice(0, 0, 1)});
  all.index_put_({Index(rows)}, after);
  return all.slice(0, 0, states);
}

PitchedRows pitched(const Tensor& x) {
  std::int64_t row = 1;
  bool dense = true;
  for (std::int64_t d = x.dim() - 1; d >= 2; --d) {
    dense = dense && (x.size(d) == 1 || x.strides()[static_cast<std::size_t>(d)] == row);
    row *= x.size(d);
  }
  if (x.size(0) * x.size(1) == 1 && dense) return {x, row};
  const std::int64_t steps = x.size(1), pitch = steps == 1 ? x.strides()[0] : x.strides()[1];
  const bool even = x.size(0) == 1 || steps == 1 || x.strides()[0] == steps * pitch;
  if (dense && even && pitch >= row) return {x, pitch};
  return {x.contiguous(), row};
}

}  // namespace etna::recurrent
