#pragma once

#include <algorithm>

#include <etna/tensor/op.h>

/// The implementation of layer_norm and rms_norm over the last dimension, D elements per row, and of add_layer_norm and
/// add_rms_norm, which normalize a sum and also return it.
namespace etna::normalization {

/// in: x; delta if it adds; weight or undefined; for layer_norm bias or undefined. out: the sum if it adds, of x's
/// dtype; then the norm, of dtype `out`
struct NormAttrs {
  double eps = 0;
  bool rms = false, adds = false;
  DType out = DType::f32;
};

/// The inputs of a forward pass by name. delta has the shape of x or of its last dimensions: row r of x gets row r mod
/// rows(delta).
struct Inputs {
  Tensor x, delta, weight, bias;

  Inputs(const Tensor& x, const Tensor& weight) : x(x), weight(weight) {}
  explicit Inputs(const OpCall& call) : x(call.in[0]) {
    auto a = call.as<NormAttrs>();
    std::size_t next = 1;
    if (a.adds) delta = call.in[next++];
    weight = call.in[next++];
    if (!a.rms) bias = call.in[next];
  }
};

/// in: gradient of y, x, weight or undefined, and a further gradient of x or undefined, which is added to dx
/// out: dx, then dweight and dbias if wanted, then ddelta, a copy of dx, if delta's dtype differs from x's
struct NormBackwardAttrs {
  double eps = 0;
  bool rms = false, wants_weight = false, wants_bias = false, wants_delta = false;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32, delta_dtype = DType::f32;
};

/// The results of layer_norm_backward or rms_norm_backward that `wanted` selects. @param more a further gradient of x,
/// or undefined
TensorList gradients(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& more,
                     const NormBackwardAttrs& wanted);

/// Rows per partial sum of dweight and dbias. Depends only on the shape, so that the bits do not vary.
inline std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t at_least, std::int64_t most_chunks) {
  return std::max(at_least, (rows + most_chunks - 1) / most_chunks);
}

/// The dtype of a norm of x: under autocast, the dtype of the matmuls that read it.
DType out_dtype(const Tensor& x);

/// Throws unless a norm's weight or bias is undefined or [D].
void check_parameter(const OpCall& call, const Tensor& x, const Tensor& parameter, const char* what);

/// True if a norm that has not run yet normalizes x and does not read it in any other input.
bool reads_only_first(const fusion::Call& norm, const Tensor& x);

/// rms_norm(x) · silu(gate), in one pass on a GPU. Differentiable.
/// @param x, gate [..., D] of one floating dtype @param weight [D] or undefined @throws ShapeError, DtypeError
Tensor gated_rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& gate);
bool gated_gpu(const OpCall& call, std::span<Tensor> out);

void forward_cpu(const OpCall& call, std::span<Tensor> out);
void backward_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_gpu(const OpCall& call, std::span<Tensor> out);
bool backward_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::normalization
