#pragma once

#include <span>

#include <etna/tensor/tensor.h>

/// How several strided operands are walked together.
namespace etna {

/// Strides of x as if broadcast to `shape`: 0 along repeated dimensions.
Strides broadcast_strides(const Tensor& x, const Shape& shape);

inline constexpr int kMaxOperands = 4;

/// Dimensions of an iteration with neighbours merged wherever every operand allows it. Dimensions of size 1 are gone;
/// an empty shape iterates once.
struct Layout {
  Shape shape;
  Strides strides[kMaxOperands];  ///< of each operand, in elements
  int operands = 0;

  bool contiguous(int operand) const;
  bool all_contiguous() const;
};

/// @param operands undefined ones (numbers) get stride 0. Each broadcasts to `shape`.
Layout merge_layout(const Shape& shape, std::span<const Tensor* const> operands);

}  // namespace etna
