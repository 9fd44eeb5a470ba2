#pragma once

#include <etna/tensor/op.h>

/// The machinery behind layer_norm and rms_norm over the last dimension, D elements a row.
namespace etna::norm {

/// in: x, weight or none, and for layer_norm bias or none
struct Attributes {
  double eps = 0;
  bool rms = false;
};

/// in: gradient of y, x, weight or none; out: dx, then dweight and dbias as wanted
struct BackwardAttributes {
  double eps = 0;
  bool rms = false, wants_weight = false, wants_bias = false;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;
};

/// Rows that go into one partial sum of dweight and dbias, a function of the shape alone so that the bits do not vary.
inline std::int64_t rows_of_piece(std::int64_t rows, std::int64_t at_least, std::int64_t most_pieces) {
  return std::max(at_least, (rows + most_pieces - 1) / most_pieces);
}

void forward_cpu(const OpCall& call, std::span<Tensor> out);
void backward_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_vulkan(const OpCall& call, std::span<Tensor> out);
bool backward_vulkan(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::norm
