#pragma once

#include <cstdint>

#include <etna/tensor/ops/sorting/sorting.h>
#include <etna/tensor/tensor.h>

/// Running results along one dimension, and triangles of matrices.
namespace etna {

// ---- running results
/// Sum of the elements up to each one; with `reverse`, from each one on. @return integers and bool as i64
Tensor cumsum(const Tensor& x, std::int64_t dim, bool reverse = false);
/// The largest element so far and its index; the last index of equal elements. NaN counts as the largest.
ValuesIndices cummax(const Tensor& x, std::int64_t dim);
/// The smallest element so far and its index; the last index of equal elements. NaN counts as the smallest.
ValuesIndices cummin(const Tensor& x, std::int64_t dim);
/// The gradient is correct where elements are 0, too. @return integers and bool as i64
Tensor cumprod(const Tensor& x, std::int64_t dim);
/// log(exp(x[0]) + ... + exp(x[i])), without overflow. @param x floating
Tensor logcumsumexp(const Tensor& x, std::int64_t dim);

// ---- triangles
/// Keeps elements on and below (triu: on and above) the k-th diagonal of the last two dimensions; sets the rest to 0.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace etna
