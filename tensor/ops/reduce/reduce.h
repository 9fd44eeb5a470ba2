#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

/// Reductions, and differences along a dimension as approximate derivatives and integrals.
namespace etna {

// ---- reductions over `dims` (empty: all)
Tensor sum(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< integers and bool sum to i64
Tensor sum(const Tensor& x, Dims dims, bool keepdim, DType out);     ///< f32 of f16 or bf16, not rounded
Tensor mean(const Tensor& x, Dims dims = {}, bool keepdim = false);  ///< floating only
Tensor max(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< gradient shared among equal maxima
/// Gradient shared among equal minima.
Tensor min(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The product; of integers and bool as i64.
Tensor prod(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// log Σ eˣ, without overflow.
Tensor logsumexp(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The variance: Σ (x - mean)² / (count - correction).
Tensor var(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// Index of the largest element, i64: the first of equal ones; NaN wins. Over all elements without `dim`.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// Sums over the dimensions along which broadcasting `shape` to x's shape repeats elements: the gradient of
/// broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// bool, or u8 of u8. NaN counts as true. Of nothing, any is false and all is true.
Tensor any(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// bool, or u8 of u8: whether no element is 0. Of nothing it is true.
Tensor all(const Tensor& x, Dims dims = {}, bool keepdim = false);
Tensor count_nonzero(const Tensor& x, Dims dims = {});  ///< i64
/// max and min: the gradient is shared among equal extremes.
Tensor amax(const Tensor& x, Dims dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// √var. Its gradient is 0 where it is 0.
Tensor std(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// var() and mean().
std::pair<Tensor, Tensor> var_mean(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// std() and mean().
std::pair<Tensor, Tensor> std_mean(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// (Σ |x|^p)^(1/p), also as linalg::vector_norm; p = 0 counts what is not 0, ±infinity is the largest or smallest
/// magnitude. Where the gradient does not exist, at 0, it is 0. Sums of f16 and bf16 are f32 and are rounded once.
/// @throws DtypeError unless x is floating; ShapeError where p < 0 or infinite and nothing is reduced
Tensor vector_norm(const Tensor& x, double p = 2, Dims dims = {}, bool keepdim = false);
/// vector_norm() under its other name.
Tensor norm(const Tensor& x, double p = 2, Dims dims = {}, bool keepdim = false);
/// norm(a - b, p)
Tensor dist(const Tensor& a, const Tensor& b, double p = 2);
/// Slices along `dim` whose p-norm exceeds maxnorm are scaled down to it. @throws ShapeError unless p > 0, maxnorm ≥ 0
Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
/// Covariances of variables, the rows of x, of which each column is one observation.
/// @param x [V, N], [N] or [] @param fweights [N] how often each observation counts, integers
/// @param aweights [N] how much it counts, floating @return [V, V] or []
Tensor cov(const Tensor& x, std::int64_t correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {});
/// cov() divided by the standard deviations of both, within [-1, 1].
Tensor corrcoef(const Tensor& x);
Tensor nansum(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< NaN counts as 0
Tensor nanmean(const Tensor& x, Dims dims = {}, bool keepdim = false);  ///< of what is not NaN; NaN of nothing

// ---- differences, all differentiable
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
