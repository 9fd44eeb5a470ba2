#pragma once

#include <etna/tensor/tensor.h>

namespace etna::sorting {

/// Moves the dimension of an op last, and moves results back.
struct LastDim {
  Tensor x;
  int dim;
  bool scalar;

  LastDim(const Tensor& given, int dim) : dim(dim), scalar(given.dim() == 0) {
    x = scalar ? given.reshape({1}) : given.transpose(dim, -1);
  }
  Tensor back(const Tensor& y) const { return scalar ? y.reshape({}) : y.transpose(dim, -1); }
  /// For a result with one element per row: [..., 1].
  Tensor reduced(const Tensor& y, bool keepdim) const {
    const Tensor kept = scalar ? y.reshape({}) : y.transpose(dim, -1);
    return scalar || keepdim ? kept : kept.squeeze(dim);
  }
};

}  // namespace etna::sorting
