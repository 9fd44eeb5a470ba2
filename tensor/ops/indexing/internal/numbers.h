#pragma once

#include <etna/tensor/tensor.h>

namespace etna::indexing {

/// y[places[i]] += source[i] on the CPU, for many numbers that go to few places. The source is divided into the same
/// chunks for every number of threads; each chunk is summed in double in its own table, and the tables are added in
/// order.
/// @param y contiguous @param places i32 or i64, within y @param source contiguous
/// @return false, having written nothing, for dtypes other than f32 and for too few numbers
bool add_numbers(const Tensor& y, const Tensor& places, const Tensor& source);

}  // namespace etna::indexing
