#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Ops whose result has as many rows as elements are true.
namespace etna::indexing {

struct Partition {
  Tensor places;  ///< [n] i32: positions of the true elements in order, then those of the others
  Tensor count;   ///< [1] i32: of the true ones
};
/// @param mask [n] bool
Partition partition(const Tensor& mask);
/// The positions of the true elements alone: one number is read on the host.
/// @param mask bool of any shape @throws CaptureError naming `op` while a step is captured
Tensor true_places(const char* op, const Tensor& mask);
/// Coordinates of places in a tensor of shape `shape`. @return [places, rank] i64
Tensor unravel(const Tensor& places, const Shape& shape);

}  // namespace etna::indexing
