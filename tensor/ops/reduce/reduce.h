#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <etna/tensor/tensor.h>

/// Reductions, comparisons and fills that are composed of the ops in ops.h. All run where their operands are. `dims`
/// empty: over all dimensions.
namespace etna {

// ---- reductions
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

// ---- elementwise
/// To `decimals` digits after the point, halves to even.
Tensor round(const Tensor& x, int decimals);
/// @param rounding_mode "floor" or "trunc"; integers stay integers
Tensor div(const Tensor& a, const Tensor& b, std::string_view rounding_mode);
Tensor div(const Tensor& a, double b, std::string_view rounding_mode);
/// start + weight · (end - start), exact at weights 0 and 1.
Tensor lerp(const Tensor& start, const Tensor& end, double weight);
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  ///< x + value · a · b
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  ///< x + value · a / b
/// Replaces NaN and infinities; these by default by the largest and smallest finite number of the dtype.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// |a - b| ≤ atol + rtol · |b|, and equal infinities. @return bool
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Whether x is ∞. @return bool
Tensor isposinf(const Tensor& x);
/// Whether x is -∞. @return bool
Tensor isneginf(const Tensor& x);
/// Which elements occur in `tests`, by comparing each with each in chunks of `tests`. @return bool, x's shape
Tensor isin(const Tensor& x, const Tensor& tests, bool invert = false);

// ---- answers for the host: wait for the device, and throw while capturing
/// Whether isclose() is true of all elements.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Same shape and, once promoted, same values; NaN differs from everything.
bool equal(const Tensor& a, const Tensor& b);

// ---- fills
/// `value` everywhere, in the shape, dtype and device of x.
Tensor full_like(const Tensor& x, double value);
/// rand() of the shape, dtype and device of x.
Tensor rand_like(const Tensor& x);
/// randn() of the shape, dtype and device of x.
Tensor randn_like(const Tensor& x);
/// randint() of the shape, dtype and device of x.
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);
/// `steps` numbers from begin to end, both exact. @throws ShapeError for negative steps
Tensor linspace(double begin, double end, std::int64_t steps, TensorOptions options = {});
/// base^linspace(begin, end, steps)
Tensor logspace(double begin, double end, std::int64_t steps, double base = 10, TensorOptions options = {});
/// 1 on the diagonal, else 0. @param columns rows by default
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, TensorOptions options = {});

}  // namespace etna
