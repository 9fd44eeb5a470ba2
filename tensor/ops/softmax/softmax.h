#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Softmax along one dimension.
namespace etna {

/// eˣ over its sum along `dim`.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// log(softmax(x)), without overflow.
Tensor log_softmax(const Tensor& x, std::int64_t dim);

}  // namespace etna
