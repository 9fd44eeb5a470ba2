#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/recurrent/internal/recurrent.h>

// A step is a gemm and one dispatch of shaders/recurrent/recurrent.comp. The two directions of a layer are independent,
// so a captured step runs them concurrently.
namespace etna::recurrent {
namespace {

constexpr std::uint32_t kNone = 99;

Tensor at_step(const Tensor& x, std::int64_t t) { return x.defined() ? x.select(0, t) : x; }
Tensor recurrent_gpu_dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// Row stride for sizes whose rows do not start at multiples of 16 bytes: copying the rows once for all steps lets the
/// gemms use wide loads. 0 if a copy is not needed or not worthwhile.
std::int64_t pitch_of(std::int64_t units) { return units <= 32 || units % 8 == 0 ? 0 : (units + 7) / 8 * 8; }
/// x [rows, units] in rows of `pitch`; x itself for pitch 0.
Tensor with_pitch(const Tensor& x, std::int64_t pitch) {
  if (pitch == 0) return x;
  Tensor y = empty({x.size(0), pitch}, {x.dtype(), x.device()}).slice(1, 0, x.size(1));
  y.copy_(x);
  return y;
}

std::uint32_t lengths_dtype(const Tensor& x) { return x.defined() ? gpu::u32(x.dtype()) : kNone; }

}  // namespace

bool recurrent_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<RecurrentAttrs>();
  const Outputs to(out, a);
  const DType t = to.states.dtype();
  if (t == f64) return false;
  if (to.states.numel() == 0) return true;
  const std::int64_t pitch = pitch_of(to.states.size(2));
  const Tensor gates = recurrent_gpu_dense(call.in[kGates]), lengths = recurrent_gpu_dense(call.in[kLengths]);
  const Tensor weight = with_pitch(call.in[kWeight], pitch).t();
  Tensor h = recurrent_gpu_dense(call.in[kH0]), c = recurrent_gpu_dense(call.in[kC0]);
  const std::int64_t steps = gates.size(0), batch = gates.size(1), units = to.states.size(2);
  Tensor gemm_result = empty({batch, gates.size(2)}, {f32, gates.device()});
  const Tensor aligned = pitch == 0 ? Tensor() : with_pitch(h, pitch);
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t at = step_at(i, steps, a.reverse);
    if (!gemm::on_gpu(call, pitch == 0 ? h : aligned, weight, {.bias = call.in[kBias]}, gemm_result)) return false;
    const Tensor state = at_step(to.states, at), cell = at_step(to.cells, at);
    gpu::Kernel(shaders::recurrent_forward, call)
        .spec(a.mode, t, lengths_dtype(lengths))
        .read(at_step(gates, at))
        .read(gemm_result)
        .read(h)
        .read(c)
        .read(lengths)
        .write(state)
        .write(cell)
        .write(at_step(to.saved, at))
        .write(aligned)
        .u32(batch * units, units, at, to.saved.defined(), pitch)
        .dispatch(gpu::grid(batch * units, 256));
    h = state, c = cell;
  }
  return true;
}

bool recurrent_backward_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<RecurrentAttrs>();
  Gradients to(out, a);
  const DType t = to.gates.dtype();
  if (t == f64) return false;
  if (to.gates.numel() == 0) return true;
  const Tensor states = recurrent_gpu_dense(call.in[kStates]), cells = recurrent_gpu_dense(call.in[kCells]),
               saved = recurrent_gpu_dense(call.in[kSaved]);
  const Tensor h0 = recurrent_gpu_dense(call.in[kInitialH]), c0 = recurrent_gpu_dense(call.in[kInitialC]),
               lengths = recurrent_gpu_dense(call.in[kSteps]);
  const Tensor states_grad = recurrent_gpu_dense(call.in[kStatesGrad]),
               cells_grad = recurrent_gpu_dense(call.in[kCellsGrad]);
  const Tensor saved_grad = recurrent_gpu_dense(call.in[kSavedGrad]);
  const Tensor weight = with_pitch(call.in[kHiddenWeight], pitch_of(states.size(2)));
  const std::int64_t steps = states.size(0), batch = states.size(1), units = states.size(2);
  const bool gru = a.mode == RecurrentMode::gru, lstm = a.mode == RecurrentMode::lstm;
  Tensor gemm_result = empty({batch, units}, {f32, states.device()});
  const Tensor carry = empty({batch, units}, {f32, states.device()});
  const std::uint32_t given =
      (states_grad.defined() ? 2u : 0u) | (cells_grad.defined() ? 4u : 0u) | (saved_grad.defined() ? 8u : 0u);
  for (std::int64_t i = steps - 1; i >= 0; --i) {
    const std::int64_t at = step_at(i, steps, a.reverse), before = step_at(i - 1, steps, a.reverse);
    const Tensor h_before = i > 0 ? states.select(0, before) : h0;
    gpu::Kernel(shaders::recurrent_backward, call)
        .spec(a.mode, t, lengths_dtype(lengths))
        .read(at_step(states_grad, at))
        .read(at_step(cells_grad, at))
        .read(at_step(saved_grad, at))
        .read(i < steps - 1 ? gemm_result : Tensor())
        .read_write(carry)
        .read_write(to.c0)
        .read(at_step(saved, at))
        .read(lstm  ? Tensor()
              : gru ? h_before
                    : states.select(0, at))
        .read(at_step(cells, at))
        .read(!lstm   ? Tensor()
              : i > 0 ? cells.select(0, before)
                      : c0)
        .read(lengths)
        .write(at_step(to.gates, at))
        .write(at_step(to.hidden, at))
        .u32(batch * units, units, at, given | (i < steps - 1 ? 1u : 0u))
        .dispatch(gpu::grid(batch * units, 256));
    const Tensor gates = at_step(to.recurrent(), at);
    const bool done = i > 0 ? gemm::on_gpu(call, gates, weight, {}, gemm_result)
                            : gemm::on_gpu(call, gates, weight, {.residual = carry}, to.h0);
    if (!done) return false;
  }
  return true;
}

}  // namespace etna::recurrent
