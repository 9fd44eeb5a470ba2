#pragma once

#include <etna/tensor/op.h>
#include <etna/tensor/ops/recurrent/recurrent.h>

/// The recurrence of one layer in one direction, as an op: the implementation of recurrent_layer().
namespace etna::recurrent {

struct RecurrentAttrs {
  RecurrentMode mode = RecurrentMode::lstm;
  bool reverse = false;
  bool keeps = false;  ///< true: the last output, which backward needs, exists
};

/// Cell states, and sums of gradients from step to step: f32, or f64 for f64.
constexpr DType row_dtype(DType t) { return t == f64 ? f64 : f32; }
/// Blocks of H that a step saves: lstm σ(i), σ(f), tanh(g), σ(o); gru σ(r), σ(z), n and the recurrent part of n.
constexpr std::int64_t saved_blocks(RecurrentMode mode) {
  return mode == RecurrentMode::lstm || mode == RecurrentMode::gru ? 4 : 0;
}

/// Inputs of the op "recurrent". May be undefined: c0 except for lstm, bias, lengths.
enum In { kGates, kH0, kC0, kWeight, kBias, kLengths, kInputs };
/// Its outputs: states [T, B, H]; lstm: cells [T, B, H] of row_dtype(); if kept and not an rnn: the saved blocks,
/// [T, B, blocks·H].
struct Outputs {
  Tensor states, cells, saved;
  Outputs(std::span<const Tensor> out, const RecurrentAttrs& a);
  TensorList list() const;
  Outputs() = default;
};

/// Inputs of the op "recurrent_backward". Undefined: inputs that the mode does not have, and missing gradients.
enum BackwardIn {
  kStates,
  kCells,
  kSaved,
  kInitialH,
  kInitialC,
  kHiddenWeight,
  kSteps,  ///< lengths
  kStatesGrad,
  kCellsGrad,
  kSavedGrad,
  kBackwardInputs
};
/// Its outputs: the gradients of the gates [T, B, gates·H], of h0, of c0 (lstm), and, for gru, of the recurrent part,
/// whose block n differs.
struct Gradients {
  Tensor gates, h0, c0, hidden;
  Gradients(std::span<const Tensor> out, const RecurrentAttrs& a);
  TensorList list() const;
  Gradients() = default;
  /// Gradient of the recurrent part.
  const Tensor& recurrent() const { return hidden.defined() ? hidden : gates; }
};

/// The time step that is computed i-th.
inline std::int64_t step_at(std::int64_t i, std::int64_t steps, bool reverse) { return reverse ? steps - 1 - i : i; }

void recurrent_cpu(const OpCall& call, std::span<Tensor> out);
void recurrent_backward_cpu(const OpCall& call, std::span<Tensor> out);
bool recurrent_gpu(const OpCall& call, std::span<Tensor> out);
bool recurrent_backward_gpu(const OpCall& call, std::span<Tensor> out);
/// The same composed of base ops, step by step.
TensorList recurrent_reference(const OpCall& call);
TensorList recurrent_backward_reference(const OpCall& call);

}  // namespace etna::recurrent
