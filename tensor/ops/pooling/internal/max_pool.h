#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Maxima of windows over one to three spatial dimensions. Tensors are [outer, D, H, W, inner] (resample/planes.h).
namespace etna::pooling {

/// One dimension of the windows. from, to: sizes before and after pooling.
struct Window {
  std::int32_t from = 1, to = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};

struct PoolAttrs {
  Window axes[3];
  bool adaptive = false;  ///< window o is [⌊o·from/to⌋, ⌈(o+1)·from/to⌉)
  bool unpool = false;    ///< backward only: of several values at one position the last counts, not their sum
};

struct MaxPooled {
  Tensor values, indices;  ///< indices: i32, in the flattened D·H·W
};
MaxPooled max_pool(const Tensor& x, const PoolAttrs& windows);
/// The values at their indices, 0 elsewhere.
/// @param values, indices [outer, to..., inner] @return [outer, from..., inner]
Tensor max_pool_back(const Tensor& values, const Tensor& indices, const PoolAttrs& windows);

void max_pool_cpu(const OpCall& call, std::span<Tensor> out);
void max_pool_back_cpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::pooling
