#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

/// Reductions, and finite differences: numerical derivatives and integrals along a dimension.
namespace etna {

// ---- reductions over `dims` (empty: all)
Tensor sum(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< integers and bool sum to i64
Tensor sum(const Tensor& x, Dims dims, bool keepdim, DType out);     ///< f32 of f16 or bf16, not rounded
Tensor mean(const Tensor& x, Dims dims = {}, bool keepdim = false);  ///< floating only
Tensor max(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< gradient shared among equal maxima
/// Gradient shared among equal minima.
Tensor min(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The product. Integers and bool give i64.
Tensor prod(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// log Σ eˣ, without overflow.
Tensor logsumexp(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The variance: Σ (x - mean)² / (count - correction).
Tensor var(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// Index of the largest element, i64: the first of equal elements; NaN counts as the largest. Over all elements without
/// `dim`.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// Sums over the dimensions along which broadcasting `shape` to x's shape repeats elements: the gradient of
/// broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// True if any element is nonzero, NaN included. @return bool, or u8 for u8; false for no elements
Tensor any(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// True if no element is 0. @return bool, or u8 for u8; true for no elements
Tensor all(const Tensor& x, Dims dims = {}, bool keepdim = false);
Tensor count_nonzero(const Tensor& x, Dims dims = {});  ///< i64
/// max and min with the gradient shared among equal extremes.
Tensor amax(const Tensor& x, Dims dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// √var. Where the result is 0, the gradient is 0.
Tensor std(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// var() and mean().
std::pair<Tensor, Tensor> var_mean(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// std() and mean().
std::pair<Tensor, Tensor> std_mean(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// (Σ |x|^p)^(1/p), also available as linalg::vector_norm; p = 0 counts the nonzero elements, ±infinity gives the
/// largest or smallest magnitude. At 0, where the gradient does not exist, it is 0. f16 and bf16 are summed in f32 and
/// rounded once.
/// @throws DtypeError unless x is floating; ShapeError if p < 0 or infinite and nothing is reduced
Tensor vector_norm(const Tensor& x, double p = 2, Dims dims = {}, bool keepdim = false);
/// vector_norm() under its other name.
Tensor norm(const Tensor& x, double p = 2, Dims dims = {}, bool keepdim = false);
/// norm(a - b, p)
Tensor dist(const Tensor& a, const Tensor& b, double p = 2);
/// Scales down the slices along `dim` whose p-norm exceeds maxnorm. @throws ShapeError unless p > 0 and maxnorm ≥ 0
Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
/// Covariances of the variables in the rows of x; each column is one observation.
/// @param x [V, N], [N] or [] @param fweights [N] number of times each observation counts, integers
/// @param aweights [N] weight of each observation, floating @return [V, V] or []
Tensor cov(const Tensor& x, std::int64_t correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {});
/// cov() divided by the standard deviations of both, within [-1, 1].
Tensor corrcoef(const Tensor& x);
Tensor nansum(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< NaN counts as 0
Tensor nanmean(const Tensor& x, Dims dims = {}, bool keepdim = false);  ///< mean of the elements that are not NaN; NaN
                                                                        ///< if there are none

// ---- differences, all differentiable
/// x[i + 1] - x[i] along a dimension, applied n times. For bool the difference is logical_xor().
/// @param prepend, append undefined, or joined to the ends of x first @throws ShapeError for a negative n
Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});
/// Numerical derivatives along `dims` (empty: all), one tensor for each: of second order inside, of order `edge_order`
/// (1 or 2) at the ends. @param spacing distance between neighbours: one number, or one for each dimension
/// @throws ShapeError unless each dimension has at least edge_order + 1 elements
std::vector<Tensor> gradient(const Tensor& x, double spacing = 1, Dims dims = {}, int edge_order = 1);
std::vector<Tensor> gradient(const Tensor& x, const std::vector<double>& spacing, Dims dims = {}, int edge_order = 1);
/// @param coordinates the positions of the elements: a list for each dimension
std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, Dims dims = {},
                             int edge_order = 1);

/// The integral along a dimension by the trapezoidal rule.
/// @param dx distance between neighbours @param x positions: [n], or y's rank with n along `dim`
Tensor trapezoid(const Tensor& y, double dx = 1, std::int64_t dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim = -1);
/// The running integral: one element fewer than y along `dim`.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, std::int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, std::int64_t dim = -1);

}  // namespace etna
