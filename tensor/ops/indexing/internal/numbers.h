#pragma once

#include <etna/tensor/tensor.h>

namespace etna::indexing {

/// y[places[i]] += source[i] on the CPU, where many numbers go to few places: parts of the source, as many for every
/// number of threads, are summed in double in tables of their own, which are added in order.
/// @param y contiguous @param places i32 or i64, within y @param source contiguous
/// @return false, having written nothing, for other dtypes than f32 and for fewer numbers
bool add_numbers(const Tensor& y, const Tensor& places, const Tensor& source);

}  // namespace etna::indexing
