#pragma once

#include <etna/tensor/tensor.h>

namespace etna::scan {

/// cumsum of a few long rows on the CPU: the sums of fixed chunks first, then each chunk from what lies before it.
/// @param y contiguous, x's shape @return false, having written nothing, if the rows are many, short, strided or not
/// f32
bool cumsum_long_rows(const Tensor& x, Tensor& y, int dim, bool reverse);

}  // namespace etna::scan
