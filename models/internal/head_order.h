#pragma once

#include <etna/tensor/ops.h>

/// Two orders of a head's rows: the elements of a rotary pair are either half a head apart or adjacent. The order of a
/// matrix must match that of the rotation.
namespace etna::models {

/// @param rows [heads · head_size, ...] with pairs half a head apart @return the same with adjacent pairs
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
