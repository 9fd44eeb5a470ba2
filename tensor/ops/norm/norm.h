#pragma once

#include <etna/tensor/op.h>

/// The machinery behind layer_norm and rms_norm over the last dimension, D elements a row, and behind add_layer_norm
/// and add_rms_norm, which normalize a sum and hand that on too.
namespace etna::norm {

/// in: x, where it adds delta, weight or none, and for layer_norm bias or none; out: where it adds the sum, of x's
/// dtype, then the norm, of dtype `out`
struct Attributes {
  double eps = 0;
  bool rms = false, adds = false;
  DType out = DType::f32;
};

/// The inputs of a forward pass by name. delta has the shape of x or of its last dimensions: row r of x gets row
/// r mod rows(delta) of it.
struct Inputs {
  Tensor x, delta, weight, bias;

  explicit Inputs(const OpCall& call) : x(call.in[0]) {
    auto a = call.as<Attributes>();
    std::size_t next = 1;
    if (a.adds) delta = call.in[next++];
    weight = call.in[next++];
    if (!a.rms) bias = call.in[next];
  }
};

/// in: gradient of y, x, weight or none, and a gradient of x from elsewhere, or none, that is added to dx;
/// out: dx, then dweight and dbias as wanted, then dx once more as ddelta, where delta is of another dtype than x
struct BackwardAttributes {
  double eps = 0;
  bool rms = false, wants_weight = false, wants_bias = false, wants_delta = false;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32, delta_dtype = DType::f32;
};

/// What layer_norm_backward or rms_norm_backward gives, as `wanted` says. @param more a gradient of x from elsewhere,
/// or none
TensorList gradients(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& more,
                     const BackwardAttributes& wanted);

/// Rows that go into one partial sum of dweight and dbias, a function of the shape alone so that the bits do not vary.
inline std::int64_t rows_of_piece(std::int64_t rows, std::int64_t at_least, std::int64_t most_pieces) {
  return std::max(at_least, (rows + most_pieces - 1) / most_pieces);
}

/// What a norm of x is written as: under autocast the dtype of the products which read it.
DType out_dtype(const Tensor& x);

/// Throws where a weight or bias of a norm is neither left out nor [D].
void check_parameter(const OpCall& call, const Tensor& x, const Tensor& parameter, const char* what);

void forward_cpu(const OpCall& call, std::span<Tensor> out);
void backward_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_gpu(const OpCall& call, std::span<Tensor> out);
bool backward_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::norm
