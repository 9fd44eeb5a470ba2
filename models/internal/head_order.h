#pragma once

#include <etna/tensor/ops.h>

/// Two orders of a head's rows: the elements of a rotary pair are either half a head apart or adjacent. The order of a
/// matrix must match that of the rotation.
namespace etna::models {

/// @param rows [heads · head_size, ...] with pairs half a head apart @param turned elements of a head, the first ones,
/// that are in pairs @return the same with adjacent pairs
inline Tensor with_neighbours(const Tensor& rows, std::int64_t head_size, std::int64_t turned) {
  const Tensor heads = rows.reshape({rows.size(0) / head_size, head_size, -1}), pairs = heads.slice(1, 0, turned);
  const Tensor adjacent =
      pairs.reshape({heads.size(0), 2, turned / 2, -1}).transpose(1, 2).reshape(pairs.shape()).contiguous();
  const Tensor all = turned == head_size ? adjacent : cat({adjacent, heads.slice(1, turned, head_size)}, 1);
  return all.reshape(rows.shape());
}

/// The inverse of with_neighbours().
inline Tensor with_halves(const Tensor& rows, std::int64_t head_size, std::int64_t turned) {
  const Tensor heads = rows.reshape({rows.size(0) / head_size, head_size, -1}), pairs = heads.slice(1, 0, turned);
  const Tensor apart =
      pairs.reshape({heads.size(0), turned / 2, 2, -1}).transpose(1, 2).reshape(pairs.shape()).contiguous();
  const Tensor all = turned == head_size ? apart : cat({apart, heads.slice(1, turned, head_size)}, 1);
  return all.reshape(rows.shape());
}

}  // namespace etna::models
