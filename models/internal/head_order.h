#pragma once

#include <etna/tensor/ops.h>

/// Two orders of a head's rows: a rotary pair is either the two halves of the head or two neighbours. A matrix in one
/// order and the rotation in the other do not fit.
namespace etna::models {

/// @param rows [heads · head_size, ...] of heads whose pairs are halves @return the same with pairs of neighbours
inline Tensor with_neighbours(const Tensor& rows, std::int64_t head_size) {
  const std::int64_t heads = rows.size(0) / head_size;
  return rows.reshape({heads, 2, head_size / 2, -1}).transpose(1, 2).reshape(rows.shape()).contiguous();
}

/// The inverse of with_neighbours().
inline Tensor with_halves(const Tensor& rows, std::int64_t head_size) {
  const std::int64_t heads = rows.size(0) / head_size;
  return rows.reshape({heads, head_size / 2, 2, -1}).transpose(1, 2).reshape(rows.shape()).contiguous();
}

}  // namespace etna::models
