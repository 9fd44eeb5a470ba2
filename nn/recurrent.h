#pragma once

#include <string>

#include <etna/nn/module.h>
#include <etna/nn/packed_sequence.h>
#include <etna/tensor/ops/recurrent/recurrent.h>

/// Recurrent networks (<etna/tensor/ops/recurrent/recurrent.h> has the formulas). Parameters have PyTorch's names, so
/// that its state_dict loads unchanged: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0 with a
/// projection; _l1 for the next layer, with _reverse behind for the other direction. They start uniform in
/// ±1/√hidden_size.
namespace etna::nn {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< inputs and outputs are [B, T, ...] instead of [T, B, ...]; states never
  double dropout = 0;        ///< of every layer's output but the last's, in training
  bool bidirectional = false;
  std::int64_t proj_size =
      0;  ///< LSTM only: size of a projected h, below hidden_size; 0: none. Its steps are not fused
};

/// What RNN, LSTM and GRU return.
struct RecurrentOutput {
  Tensor output;         ///< [T, B, D · H]: of the last layer, D = 2 directions side by side, else 1
  RecurrentState state;  ///< [num_layers · D, B, H]: after the last step of each sequence; c for LSTM only
};
/// What RNN, LSTM and GRU return for a PackedSequence.
struct PackedOutput {
  PackedSequence output;
  RecurrentState state;
};

/// The base of RNN, LSTM and GRU.
class RecurrentModule : public Module {
 public:
  /// @param x [T, B, input_size] ([B, T, input_size] with batch_first), or [T, input_size]: then nothing has a batch
  /// @param state as in RecurrentOutput; undefined: 0
  /// @throws ShapeError, DtypeError
  RecurrentOutput forward(const Tensor& x, const RecurrentState& state = {}) const;
  /// @param state in the batch's order
  PackedOutput forward(const PackedSequence& x, const RecurrentState& state = {}) const;
  /// @param lengths [B] i64 or i32, on the device: as a packed sequence, for captured steps. @param x with a batch
  RecurrentOutput forward(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const;
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& state = {}) const;
  PackedOutput operator()(const PackedSequence& x, const RecurrentState& state = {}) const { return forward(x, state); }
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const {
    return forward(x, state, lengths);
  }
  std::string extra_repr() const override;

  /// @param direction 0: forward, 1: reverse
  const RecurrentWeights& weights(std::int64_t layer, std::int64_t direction = 0) const;

  const RecurrentMode mode;
  const std::int64_t input_size, hidden_size;
  const RecurrentOptions options;

 protected:
  RecurrentModule(const char* name, RecurrentMode mode, std::int64_t input_size, std::int64_t hidden_size,
                  RecurrentOptions options);

 private:
  std::int64_t directions() const { return options.bidirectional ? 2 : 1; }
  std::int64_t output_size() const { return options.proj_size > 0 ? options.proj_size : hidden_size; }
  void check(const Tensor& x, const RecurrentState& state, std::int64_t batch) const;
  /// @param x [T, B, I]
  RecurrentOutput run(const Tensor& x, const RecurrentState& state, const Tensor& lengths) const;

  const char* name_;
  std::vector<RecurrentWeights> weights_;
};

enum class Nonlinearity { tanh, relu };

/// h = tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh) (Elman 1990), or relu.
class RNN : public RecurrentModule {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh);

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Long short-term memory (Hochreiter & Schmidhuber 1997).
class LSTM : public RecurrentModule {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options = {});

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Gated recurrent units (Cho et al. 2014).
class GRU : public RecurrentModule {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, RecurrentOptions options = {});

 protected:
  std::unique_ptr<Module> another() const override;
};

/// The base of single steps. Parameters are weight_ih, weight_hh, bias_ih and bias_hh.
class RecurrentCell : public Module {
 public:
  std::string extra_repr() const override;
  const RecurrentMode mode;
  const std::int64_t input_size, hidden_size;
  RecurrentWeights weights;

 protected:
  RecurrentCell(const char* name, RecurrentMode mode, std::int64_t input_size, std::int64_t hidden_size, bool bias);
};

/// One step of an RNN. @param x [B, I] or [I] @param h [B, H] or [H]; undefined: 0
class RNNCell : public RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true,
          Nonlinearity nonlinearity = Nonlinearity::tanh);
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// One step of an LSTM: lstm_cell() with its weights.
class LSTMCell : public RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true);
  RecurrentState forward(const Tensor& x, const RecurrentState& state = {}) const;
  RecurrentState operator()(const Tensor& x, const RecurrentState& state = {}) const;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// One step of a GRU: gru_cell() with its weights.
class GRUCell : public RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true);
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
