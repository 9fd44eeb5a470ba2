#include <algorithm>
#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/transpose.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/weight_panels.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>

// A task owns a panel of units for a whole batch. It multiplies the states by the panel's columns of the weight, which
// are packed once for all steps and stay in its core's cache, and computes gates, cells and new states from the result
// at once. So a step is one parallel loop. f16 and bf16 are computed in f32 and rounded at the end; bf16 gemms may take
// rounded states (WeightPanels::rows()).
namespace etna::recurrent {
namespace {

/// x as a contiguous tensor of the compute type.
Tensor recurrent_cpu_dense(const Tensor& x, DType row) { return x.defined() ? x.to(row).contiguous() : x; }
/// The tensor to compute an output in: the output itself, or another tensor of the compute type.
Tensor target(const Tensor& x, DType row) { return !x.defined() || x.dtype() == row ? x : empty(x.shape(), row); }
void round_into(const Tensor& from, const Tensor& to) {
  if (to.defined() && from.impl() != to.impl()) Tensor(to).copy_(from);
}
template <typename T>
const T* at(const Tensor& x, std::int64_t step) {
  return x.defined() ? x.host<T>() + step * (x.numel() / std::max<std::int64_t>(1, x.size(0))) : nullptr;
}
template <typename T>
T* writable_at(const Tensor& x, std::int64_t step) {
  return const_cast<T*>(at<T>(x, step));
}

std::vector<std::int64_t> lengths_of(const Tensor& lengths) {
  return lengths.defined() ? lengths.to_vector<std::int64_t>() : std::vector<std::int64_t>();
}

/// Calls body(panel) for all panels, from several threads if there is enough work.
template <typename Body>
void each_panel(std::int64_t panels, std::int64_t work_per_panel, const Body& body) {
  cpu::parallel_for(panels, std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, work_per_panel)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t p = begin; p < end; ++p) body(p);
                    });
}

/// The weight as the panels store it; bf16 stays bf16.
template <typename S>
const S* weight_data(const Tensor& weight) {
  if constexpr (sizeof(S) == 2)
    return &weight.host<BFloat16>()->bits;
  else
    return weight.host<S>();
}
template <typename T, typename S>
Tensor dense_weight(const Tensor& weight) {
  return sizeof(S) == 2 ? weight.contiguous() : recurrent_cpu_dense(weight, dtype_of<T>());
}

/// The units of one panel in one step, with everything a step reads and writes. Rows are batch entries.
template <typename T>
struct Forward {
  RecurrentMode mode;
  std::int64_t batch, units, blocks, per_panel;
  const T* bias;
  const std::int64_t* lengths;  ///< null: all steps are valid

  struct Pointers {
    const T *gates, *state_before, *cell_before;
    T *state, *cell, *saved;
  };

  /// @param gemm_result [batch, blocks · per_panel], the gemm result of this panel @param values scratch, 4 · batch ·
  /// per_panel
  void panel(std::int64_t index, std::int64_t step, const Pointers& p, const T* gemm_result, T* values) const {
    const std::int64_t first = index * per_panel, n = std::min(per_panel, units - first), size = batch * per_panel;
    const bool lstm = mode == RecurrentMode::lstm, gru = mode == RecurrentMode::gru;
    // Blocks that go through a sigmoid are adjacent: lstm i, f, o, g; gru r, z, n.
    T* block[4] = {values, values + size, values + (lstm ? 3 : 2) * size, values + 2 * size};
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t k = 0; k < blocks; ++k) {
        const T* x = p.gates + (b * blocks + k) * units + first;
        const T* y = gemm_result + (b * blocks + k) * per_panel;
        const T* w = bias == nullptr ? nullptr : bias + k * units + first;
        T* to = block[k] + b * per_panel;
        if (gru && k == 2) {
          // n needs r first, so the recurrent part is kept next to it.
          T* recurrent = values + 3 * size + b * per_panel;
          for (std::int64_t j = 0; j < n; ++j) recurrent[j] = w == nullptr ? y[j] : y[j] + w[j];
          for (std::int64_t j = 0; j < n; ++j) to[j] = x[j];
        } else if (w == nullptr) {
          for (std::int64_t j = 0; j < n; ++j) to[j] = x[j] + y[j];
        } else {
          for (std::int64_t j = 0; j < n; ++j) to[j] = x[j] + (y[j] + w[j]);
        }
        for (std::int64_t j = n; j < per_panel; ++j) to[j] = 0;
      }
    }
    if (lstm) return finish_lstm(first, n, step, p, block);
    if (gru) return finish_gru(first, n, step, p, values);
    if (mode == RecurrentMode::rnn_tanh) cpu::unary(cpu::UnaryOp::tanh, values, values, size);
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* v = values + b * per_panel;
      T* h = p.state + b * units + first;
      const T* before = p.state_before + b * units + first;
      const bool held = lengths != nullptr && step >= lengths[b];
      for (std::int64_t j = 0; j < n; ++j) {
        h[j] = held ? before[j] : mode == RecurrentMode::rnn_tanh || v[j] > 0 || v[j] != v[j] ? v[j] : T(0);
      }
    }
  }

 private:
  void save(const Pointers& p, std::int64_t b, std::int64_t k, std::int64_t first, std::int64_t n, bool held,
            const T* from) const {
    if (p.saved == nullptr) return;
    T* to = p.saved + (b * 4 + k) * units + first;
    if (held) {
      std::fill_n(to, n, T(0));
    } else {
      std::copy_n(from, n, to);
    }
  }

  void finish_lstm(std::int64_t first, std::int64_t n, std::int64_t step, const Pointers& p, T* const* block) const {
    const std::int64_t size = batch * per_panel;
    T *in = block[0], *forget = block[1], *gate = block[2], *out = block[3];
    cpu::unary(cpu::UnaryOp::sigmoid, in, in, 3 * size);
    cpu::unary(cpu::UnaryOp::tanh, gate, gate, size);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = b * per_panel, to = b * units + first;
      const bool held = lengths != nullptr && step >= lengths[b];
      for (int k = 0; k < 4; ++k) save(p, b, k, first, n, held, block[k] + row);
      const T* before = p.cell_before + to;
      T* cell = p.cell + to;
      for (std::int64_t j = 0; j < n; ++j) {
        const T c = forget[row + j] * before[j] + in[row + j] * gate[row + j];
        cell[j] = held ? before[j] : c;
        gate[row + j] = c;
      }
    }
    cpu::unary(cpu::UnaryOp::tanh, gate, gate, size);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = b * per_panel, to = b * units + first;
      const bool held = lengths != nullptr && step >= lengths[b];
      for (std::int64_t j = 0; j < n; ++j)
        p.state[to + j] = held ? p.state_before[to + j] : out[row + j] * gate[row + j];
    }
  }

  void finish_gru(std::int64_t first, std::int64_t n, std::int64_t step, const Pointers& p, T* values) const {
    const std::int64_t size = batch * per_panel;
    T *reset = values, *update = values + size, *fresh = values + 2 * size, *recurrent = values + 3 * size;
    cpu::unary(cpu::UnaryOp::sigmoid, reset, reset, 2 * size);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t j = b * per_panel; j < b * per_panel + n; ++j) fresh[j] += reset[j] * recurrent[j];
    }
    cpu::unary(cpu::UnaryOp::tanh, fresh, fresh, size);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = b * per_panel, to = b * units + first;
      const bool held = lengths != nullptr && step >= lengths[b];
      for (int k = 0; k < 4; ++k) save(p, b, k, first, n, held, values + k * size + row);
      for (std::int64_t j = 0; j < n; ++j) {
        const T before = p.state_before[to + j], y = fresh[row + j];
        p.state[to + j] = held ? before : y + update[row + j] * (before - y);
      }
    }
  }
};

/// @param S element type of the packed weight
template <typename T, typename S>
void forward(const OpCall& call, const Outputs& out) {
  const auto a = call.as<RecurrentAttrs>();
  const DType row = dtype_of<T>();
  const Tensor gates = recurrent_cpu_dense(call.in[kGates], row), weight = dense_weight<T, S>(call.in[kWeight]);
  const Tensor bias = recurrent_cpu_dense(call.in[kBias], row), h0 = recurrent_cpu_dense(call.in[kH0], row),
               c0 = recurrent_cpu_dense(call.in[kC0], row);
  const Outputs to = [&] {
    Outputs o;
    o.states = target(out.states, row), o.cells = target(out.cells, row), o.saved = target(out.saved, row);
    return o;
  }();
  const std::vector<std::int64_t> lengths = lengths_of(call.in[kLengths]);
  const std::int64_t steps = gates.size(0), batch = gates.size(1), units = weight.size(1), blocks = gates_of(a.mode);
  const std::int64_t per_panel = blocks == 1 ? cpu::kPanelTile : cpu::kPanelTile / 2;
  const std::int64_t columns = blocks * per_panel, panels = (units + per_panel - 1) / per_panel;
  cpu::WeightPanels<T, S> packed(panels, units, columns);
  const S* w = weight_data<S>(weight);
  each_panel(panels, units * columns, [&](std::int64_t panel) {
    constexpr std::int64_t kHalf = cpu::kPanelTile / 2;
    for (std::int64_t c = 0; c < columns; c += kHalf) {
      const std::int64_t unit = panel * per_panel + c % per_panel,
                         taken = std::clamp<std::int64_t>(units - unit, 0, kHalf);
      const auto to = packed.column(panel, c);
      cpu::transpose(w + (c / per_panel * units + unit) * units, units, to.first, to.step, units, taken, sizeof(S));
      for (std::int64_t i = 0; i < units && taken < kHalf; ++i)
        std::fill_n(to.first + i * to.step + taken, kHalf - taken, S(0));
    }
  });
  const Forward<T> layer{a.mode,
                         batch,
                         units,
                         blocks,
                         per_panel,
                         bias.defined() ? bias.host<T>() : nullptr,
                         lengths.empty() ? nullptr : lengths.data()};
  const T *h = h0.host<T>(), *c = c0.defined() ? c0.host<T>() : nullptr;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t step = step_at(i, steps, a.reverse);
    const typename Forward<T>::Pointers p{at<T>(gates, step),
                                          h,
                                          c,
                                          writable_at<T>(to.states, step),
                                          writable_at<T>(to.cells, step),
                                          writable_at<T>(to.saved, step)};
    const auto rows = packed.rows(h, units, batch);
    each_panel(panels, batch * units * columns, [&](std::int64_t panel) {
      cpu::Scratch<T> scratch(static_cast<std::size_t>(batch * (columns + 4 * per_panel)));
      T* gemm_result = scratch.data() + batch * 4 * per_panel;
      packed.multiply(panel, rows, gemm_result, columns);
      layer.panel(panel, step, p, gemm_result, scratch.data());
    });
    h = p.state, c = p.cell;
  }
  round_into(to.states, out.states), round_into(to.cells, out.cells), round_into(to.saved, out.saved);
}

/// One unit of one row. Missing gradients are null.
template <typename T>
struct Backward {
  RecurrentMode mode;
  std::int64_t batch, units;
  const std::int64_t* lengths;

  struct Pointers {
    const T *states_grad, *cells_grad, *saved_grad;
    const T *saved, *state, *state_before, *cell, *cell_before;
    T *gates, *hidden, *carry, *cell_carry;
  };

  /// @param gemm_result gradient of h from the following steps, with row stride `ld`; null for the last step
  void rows(std::int64_t step, std::int64_t first, std::int64_t n, const Pointers& p, const T* gemm_result,
            std::int64_t ld) const {
    cpu::Scratch<T> squashed(static_cast<std::size_t>(n));
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = b * units + first;
      const bool here = lengths == nullptr || step < lengths[b];
      T* carry = p.carry + row;
      if (gemm_result == nullptr) {
        std::fill_n(carry, n, T(0));
      } else {
        for (std::int64_t j = 0; j < n; ++j) carry[j] += gemm_result[b * ld + j];
      }
      if (p.states_grad != nullptr) {
        for (std::int64_t j = 0; j < n; ++j) carry[j] += p.states_grad[row + j];
      }
      if (mode == RecurrentMode::lstm) {
        cpu::unary(cpu::UnaryOp::tanh, p.cell + row, squashed.data(), n);
        lstm(b, first, n, here, p, gemm_result != nullptr, squashed.data());
      } else if (mode == RecurrentMode::gru) {
        gru(b, first, n, here, p);
      } else {
        T* to = p.gates + row;
        const T* h = p.state + row;
        for (std::int64_t j = 0; j < n; ++j) {
          const T d = mode == RecurrentMode::rnn_tanh ? carry[j] * (1 - h[j] * h[j]) : h[j] > 0 ? carry[j] : T(0);
          to[j] = here ? d : T(0);
          carry[j] = here ? T(0) : carry[j];
        }
      }
    }
  }

 private:
  /// A block of row b from `blocks` blocks.
  template <typename P>
  P* block(P* x, std::int64_t b, std::int64_t blocks, std::int64_t k, std::int64_t first) const {
    return x == nullptr ? x : x + (b * blocks + k) * units + first;
  }

  void lstm(std::int64_t b, std::int64_t first, std::int64_t n, bool here, const Pointers& p, bool later,
            const T* y) const {
    const T *in = block(p.saved, b, 4, 0, first), *forget = block(p.saved, b, 4, 1, first);
    const T *gate = block(p.saved, b, 4, 2, first), *out = block(p.saved, b, 4, 3, first);
    T *di = block(p.gates, b, 4, 0, first), *df = block(p.gates, b, 4, 1, first);
    T *dg = block(p.gates, b, 4, 2, first), *d_o = block(p.gates, b, 4, 3, first);
    const std::int64_t row = b * units + first;
    T *carry = p.carry + row, *cells = p.cell_carry + row;
    const T *before = p.cell_before + row, *cells_grad = p.cells_grad == nullptr ? nullptr : p.cells_grad + row;
    if (!later) std::fill_n(cells, n, T(0));
    if (cells_grad != nullptr) {
      for (std::int64_t j = 0; j < n; ++j) cells[j] += cells_grad[j];
    }
    if (!here) {
      for (T* to : {di, df, dg, d_o}) std::fill_n(to, n, T(0));
      return;
    }
    T extra[4] = {};
    for (std::int64_t j = 0; j < n; ++j) {
      if (p.saved_grad != nullptr) {
        for (int k = 0; k < 4; ++k) extra[k] = block(p.saved_grad, b, 4, k, first)[j];
      }
      const T dh = carry[j], cell = cells[j] + dh * out[j] * (1 - y[j] * y[j]);
      di[j] = (cell * gate[j] + extra[0]) * in[j] * (1 - in[j]);
      df[j] = (cell * before[j] + extra[1]) * forget[j] * (1 - forget[j]);
      dg[j] = (cell * in[j] + extra[2]) * (1 - gate[j] * gate[j]);
      d_o[j] = (dh * y[j] + extra[3]) * out[j] * (1 - out[j]);
      carry[j] = 0;
      cells[j] = cell * forget[j];
    }
  }

  void gru(std::int64_t b, std::int64_t first, std::int64_t n, bool here, const Pointers& p) const {
    const T* s[4];
    T *to[3], *hidden[3];
    for (int k = 0; k < 4; ++k) s[k] = block(p.saved, b, 4, k, first);
    for (int k = 0; k < 3; ++k) to[k] = block(p.gates, b, 3, k, first), hidden[k] = block(p.hidden, b, 3, k, first);
    if (!here) {
      for (int k = 0; k < 3; ++k) std::fill_n(to[k], n, T(0)), std::fill_n(hidden[k], n, T(0));
      return;
    }
    const std::int64_t row = b * units + first;
    T extra[4] = {};
    for (std::int64_t j = 0; j < n; ++j) {
      if (p.saved_grad != nullptr) {
        for (int k = 0; k < 4; ++k) extra[k] = block(p.saved_grad, b, 4, k, first)[j];
      }
      const T r = s[0][j], z = s[1][j], fresh = s[2][j], q = s[3][j], dh = p.carry[row + j];
      const T dn = (dh * (1 - z) + extra[2]) * (1 - fresh * fresh);
      to[0][j] = hidden[0][j] = (dn * q + extra[0]) * r * (1 - r);
      to[1][j] = hidden[1][j] = (dh * (p.state_before[row + j] - fresh) + extra[1]) * z * (1 - z);
      to[2][j] = dn;
      hidden[2][j] = dn * r + extra[3];
      p.carry[row + j] = dh * z;
    }
  }
};

template <typename T, typename S>
void backward(const OpCall& call, const Gradients& out) {
  const auto a = call.as<RecurrentAttrs>();
  const DType row = dtype_of<T>();
  TensorList in;
  for (int i = 0; i < kBackwardInputs; ++i)
    in.push_back(i == kSteps || i == kHiddenWeight ? Tensor()
                                                   : recurrent_cpu_dense(call.in[static_cast<std::size_t>(i)], row));
  Gradients to;
  to.gates = target(out.gates, row), to.hidden = target(out.hidden, row);
  to.h0 = target(out.h0, row), to.c0 = target(out.c0, row);
  const std::vector<std::int64_t> lengths = lengths_of(call.in[kSteps]);
  const Tensor& states = in[kStates];
  const std::int64_t steps = states.size(0), batch = states.size(1), units = states.size(2);
  const std::int64_t width = gates_of(a.mode) * units, columns = 2 * cpu::kPanelTile;
  const std::int64_t panels = (units + columns - 1) / columns;
  cpu::WeightPanels<T, S> packed(panels, width, columns);
  const Tensor weight = dense_weight<T, S>(call.in[kHiddenWeight]);
  const S* w = weight_data<S>(weight);
  each_panel(panels, width * columns, [&](std::int64_t panel) {
    for (std::int64_t c = 0; c < columns; c += cpu::kPanelTile) {
      const std::int64_t unit = panel * columns + c;
      const std::int64_t taken = std::clamp<std::int64_t>(units - unit, 0, cpu::kPanelTile);
      const auto to = packed.column(panel, c);
      for (std::int64_t k = 0; k < width; ++k) {
        std::copy_n(w + k * units + unit, taken, to.first + k * to.step);
        std::fill_n(to.first + k * to.step + taken, cpu::kPanelTile - taken, S(0));
      }
    }
  });
  const Backward<T> layer{a.mode, batch, units, lengths.empty() ? nullptr : lengths.data()};
  T *carry = to.h0.template host<T>(), *cell_carry = to.c0.defined() ? to.c0.template host<T>() : nullptr;
  const T* later = nullptr;  // gradient of the recurrent part of the step after this one
  for (std::int64_t i = steps - 1; i >= -1; --i) {
    const std::int64_t step = step_at(std::max<std::int64_t>(i, 0), steps, a.reverse);
    const std::int64_t before = step_at(i - 1, steps, a.reverse);
    typename Backward<T>::Pointers p{at<T>(in[kStatesGrad], step),
                                     at<T>(in[kCellsGrad], step),
                                     at<T>(in[kSavedGrad], step),
                                     at<T>(in[kSaved], step),
                                     at<T>(states, step),
                                     i > 0 ? at<T>(states, before) : at<T>(in[kInitialH], 0),
                                     at<T>(in[kCells], step),
                                     i > 0 ? at<T>(in[kCells], before) : at<T>(in[kInitialC], 0),
                                     writable_at<T>(to.gates, step),
                                     writable_at<T>(to.hidden, step),
                                     carry,
                                     cell_carry};
    const auto rows = packed.rows(later, width, later == nullptr ? 0 : batch);
    each_panel(panels, batch * width * columns, [&](std::int64_t panel) {
      const std::int64_t first = panel * columns, n = std::min(columns, units - first);
      cpu::Scratch<T> gemm_result(static_cast<std::size_t>(batch * columns));
      if (later != nullptr) packed.multiply(panel, rows, gemm_result.data(), columns);
      if (i >= 0) return layer.rows(step, first, n, p, later == nullptr ? nullptr : gemm_result.data(), columns);
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t j = 0; j < n; ++j) carry[b * units + first + j] += gemm_result[b * columns + j];
      }
    });
    later = p.hidden != nullptr ? p.hidden : p.gates;
  }
  round_into(to.gates, out.gates), round_into(to.hidden, out.hidden);
  round_into(to.h0, out.h0), round_into(to.c0, out.c0);
}

}  // namespace

void recurrent_cpu(const OpCall& call, std::span<Tensor> out) {
  const Outputs to(out, call.as<RecurrentAttrs>());
  if (to.states.numel() == 0) return;
  if (to.states.dtype() == f64)
    forward<double, double>(call, to);
  else if (call.in[kWeight].dtype() == bf16)
    forward<float, std::uint16_t>(call, to);
  else
    forward<float, float>(call, to);
}

void recurrent_backward_cpu(const OpCall& call, std::span<Tensor> out) {
  const Gradients to(out, call.as<RecurrentAttrs>());
  if (to.gates.numel() == 0) return;
  if (to.gates.dtype() == f64)
    backward<double, double>(call, to);
  else if (call.in[kHiddenWeight].dtype() == bf16)
    backward<float, std::uint16_t>(call, to);
  else
    backward<float, float>(call, to);
}

}  // namespace etna::recurrent
