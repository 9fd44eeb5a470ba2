#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/tensor.h>

/// Joining tensors.
namespace etna {

/// Joins tensors along an existing dimension. Other sizes must be equal; dtypes are promoted.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a new dimension.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor hstack(const std::vector<Tensor>& tensors);        ///< along dimension 1; lists along dimension 0
Tensor vstack(const std::vector<Tensor>& tensors);        ///< along dimension 0, after atleast_2d()
Tensor dstack(const std::vector<Tensor>& tensors);        ///< along dimension 2, after atleast_3d()
Tensor column_stack(const std::vector<Tensor>& tensors);  ///< along dimension 1, lists as columns

}  // namespace etna
