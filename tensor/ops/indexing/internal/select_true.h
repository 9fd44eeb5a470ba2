#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Ops whose result has one row per true element. The mask is counted first; the host reads the total and allocates a
/// result of that size, which a second pass over the mask fills.
namespace etna::indexing {

struct TrueCounts {
  Tensor before;  ///< i32, for each tile of 4096 elements the number of true elements before it
  Tensor total;   ///< [1] i32
};
/// @param mask [n] bool
TrueCounts count_true(const Tensor& mask);
/// @param count the total of `counts`
/// @return [count] i32, the positions of the true elements in order
Tensor places_of_true(const Tensor& mask, const TrueCounts& counts, std::int64_t count);
/// @param x [n]
/// @return [count], the elements of x where the mask is true
Tensor elements_at_true(const Tensor& x, const Tensor& mask, const TrueCounts& counts, std::int64_t count);

/// The positions of the true elements. The host reads one number.
/// @param mask bool of any shape @throws CaptureError naming `op` while a step is captured
Tensor true_places(const char* op, const Tensor& mask);
/// Coordinates of places in a tensor of shape `shape`. @return [places, rank] i64
Tensor unravel(const Tensor& places, const Shape& shape);

}  // namespace etna::indexing
