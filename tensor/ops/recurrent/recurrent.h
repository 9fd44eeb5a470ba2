#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// One layer, in one direction, of a recurrent network, and single steps. nn::RNN, nn::LSTM and nn::GRU stack layers.
///
/// The projection of the inputs of all steps is one gemm, a step is a gemm and one kernel, and the gradients of the
/// weights are one gemm over all steps. Autocast lowers all gemms; the cell state of an LSTM is f32 (f64 for f64).
namespace etna {

/// How a step computes h from the input part x·W_ihᵀ + b_ih and the recurrent part h·W_hhᵀ + b_hh, each `gates` · H
/// wide:
///     rnn_tanh, rnn_relu    activation(input + recurrent)
///     lstm                  i, f, g, o (Hochreiter & Schmidhuber 1997; Gers et al. 2000):
///                           c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)
///     gru                   r, z, n (Cho et al. 2014): n = tanh(input + σ(r) · recurrent), h = (1 - σ(z))·n + σ(z)·h
enum class RecurrentMode { rnn_tanh, rnn_relu, lstm, gru };
/// Blocks of H in the weights: 1, 4 for lstm, 3 for gru.
std::int64_t gates_of(RecurrentMode mode);

/// The state that a recurrent layer passes from step to step.
struct RecurrentState {
  Tensor h;
  Tensor c;  ///< lstm only
};
/// The result of recurrent_layer().
struct RecurrentLayer {
  Tensor output;         ///< [T, B, H]; 0 past a sequence's length
  RecurrentState state;  ///< [B, H], after the last step of each sequence (after its first step, if reversed)
};
/// The weights of one layer in one direction.
struct RecurrentWeights {
  Tensor weight_ih;         ///< [gates·H, I]
  Tensor weight_hh;         ///< [gates·H, H], or [gates·H, P] with a projection
  Tensor bias_ih, bias_hh;  ///< [gates·H] or undefined
  Tensor weight_hr;         ///< lstm: [P, H] projects each h (Sak et al. 2014); undefined: none
};

/// Runs all steps of one layer.
/// @param x [T, B, I]
/// @param state h [B, H] ([B, P] with a projection), c [B, H]; undefined: 0
/// @param reverse runs from the last step to the first
/// @param lengths [B] i64 or i32, on x's device: number of valid steps of each sequence. Later steps keep the state and
/// output 0; reversed, a sequence starts at its own last step. Undefined: all steps are valid. A captured step reads
/// lengths at every replay.
/// @throws ShapeError, DtypeError
RecurrentLayer recurrent_layer(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights,
                               RecurrentMode mode, bool reverse = false, const Tensor& lengths = {});

/// Single steps. @param x [B, I] or [I] @param h, c [B, H] or [H] @return of h's shape
Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/// One step of a GRU. @param x [B, I] or [I] @param h [B, H] or [H] @return of h's shape
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/// One step of an LSTM. @param x [B, I] or [I] @param state h and c, [B, H] or [H] each
RecurrentState lstm_cell(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights);

}  // namespace etna
