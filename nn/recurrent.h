#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/nn/module.h>
#include <etna/tensor/ops/recurrent/recurrent.h>
#include <etna/tensor/tensor.h>

/// Recurrent networks (<etna/tensor/ops/recurrent/recurrent.h> has the formulas). Parameters have PyTorch's names, so
/// that its state_dict loads unchanged: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0 with a
/// projection; _l1 for the next layer, with _reverse behind for the other direction. They start uniform in
/// ±1/√hidden_size.
namespace etna::nn {

/// Sequences of different lengths without padding: the first steps of all, longest sequence first, then the second
/// steps, and so on.
struct PackedSequence {
  Tensor data;                            ///< [sum of lengths, ...]
  std::vector<std::int64_t> batch_sizes;  ///< how many sequences have a t-th step
  /// Where each sequence of the packed order stood in the batch; empty: it was sorted.
  std::vector<std::int64_t> sorted_indices;

  std::int64_t batch() const { return batch_sizes.empty() ? 0 : batch_sizes.front(); }
  /// In packed order.
  std::vector<std::int64_t> sorted_lengths() const;
  /// In the batch's order.
  std::vector<std::int64_t> lengths() const;
};

struct PaddedSequence {
  Tensor data;                        ///< [T, B, ...], or [B, T, ...]
  std::vector<std::int64_t> lengths;  ///< of each sequence of the batch
};

/// Packs a padded batch. The lengths are numbers of the host, as in PyTorch, so a captured step cannot pack sequences:
/// there, give the lengths to recurrent_layer() as a tensor.
/// @param input [T, B, ...], or [B, T, ...] with batch_first @param lengths of each sequence, 1 ... T
/// @param enforce_sorted refuse lengths that are not in falling order; false: sorts them
/// @throws ShapeError
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
/// @param lengths [B] i64 or i32 on the host; on a GPU it is read back
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first = false,
                                    bool enforce_sorted = true);
/// The inverse; the sequences return to the batch's order.
/// @param total_length T; {}: the longest length @throws ShapeError if it is shorter than that
PaddedSequence pad_packed_sequence(const PackedSequence& packed, bool batch_first = false, double padding_value = 0,
                                   std::optional<std::int64_t> total_length = {});
/// Pads sequences [T_i, ...] of one device and dtype to the longest. @return [T, B, ...], or [B, T, ...]
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false, double padding_value = 0);
/// Packs sequences [T_i, ...].
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

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
