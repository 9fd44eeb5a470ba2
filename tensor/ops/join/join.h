#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/tensor.h>

/// Joining tensors.
namespace etna {

/// Joins tensors along a dimension that they have. Other sizes are equal; dtypes are promoted.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a dimension that the result gets.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor hstack(const std::vector<Tensor>& tensors);        ///< along dimension 1; lists along dimension 0
Tensor vstack(const std::vector<Tensor>& tensors);        ///< along dimension 0, after atleast_2d()
Tensor dstack(const std::vector<Tensor>& tensors);        ///< along dimension 2, after atleast_3d()
Tensor column_stack(const std::vector<Tensor>& tensors);  ///< along dimension 1, lists as columns

}  // namespace etna
