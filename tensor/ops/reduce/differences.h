#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/tensor.h>

/// Differences and sums along a dimension as approximate derivatives and integrals. All differentiable.
namespace etna {

/// x[i + 1] - x[i] along a dimension, n times. bool differs by logical_xor().
/// @param prepend, append undefined, or joined to x's ends before @throws ShapeError for a negative n
Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});
/// Derivatives along `dims` (empty: all), one tensor for each: of second order inside, of order `edge_order` (1 or 2)
/// at the ends. @param spacing the distance of neighbours: one number, or one for each dimension
/// @throws ShapeError unless a dimension has at least edge_order + 1 elements
std::vector<Tensor> gradient(const Tensor& x, double spacing = 1, Dims dims = {}, int edge_order = 1);
std::vector<Tensor> gradient(const Tensor& x, const std::vector<double>& spacing, Dims dims = {}, int edge_order = 1);
/// @param coordinates where the elements lie: a list for each dimension
std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, Dims dims = {},
                             int edge_order = 1);

/// The integral along a dimension by the trapezoidal rule.
/// @param dx the distance of neighbours @param x where they lie: [n], or y's rank with n along `dim`
Tensor trapezoid(const Tensor& y, double dx = 1, std::int64_t dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim = -1);
/// Its running values: one less than y has elements.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, std::int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim = -1);

}  // namespace etna
