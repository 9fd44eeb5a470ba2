#pragma once

#include <span>

#include <etna/tensor/tensor.h>

/// Iterating over several strided operands together.
namespace etna {

/// Strides of x broadcast to `shape`: 0 along repeated dimensions.
Strides broadcast_strides(const Tensor& x, const Shape& shape);

inline constexpr int kMaxOperands = 4;

/// The dimensions of an iteration. Adjacent dimensions are merged if every operand's strides allow it, and dimensions
/// of size 1 are dropped. An empty shape iterates once.
struct Layout {
  Shape shape;
  Strides strides[kMaxOperands];  ///< per operand, in elements
  int operands = 0;

  /// Adds a dimension inside the others. @param along each operand's stride in it
  void append(std::int64_t size, std::span<const std::int64_t> along);

  bool contiguous(int operand) const;
  bool all_contiguous() const;
};

/// @param operands each broadcasts to `shape`; undefined ones (numbers) get stride 0
Layout merge_layout(const Shape& shape, std::span<const Tensor* const> operands);

}  // namespace etna
