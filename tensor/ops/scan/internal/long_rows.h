#pragma once

#include <etna/tensor/tensor.h>

namespace etna::scan {

/// cumsum of a few long rows on the CPU: first sums fixed chunks, then scans each chunk from the total of the chunks
/// before it.
/// @param y contiguous, x's shape @return false, having written nothing, if the rows are many, short, strided or not
/// f32
bool cumsum_long_rows(const Tensor& x, Tensor& y, int dim, bool reverse);

}  // namespace etna::scan
