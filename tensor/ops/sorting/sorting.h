#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include <etna/tensor/tensor.h>

/// Sorting, order statistics and search, as in PyTorch: NaN is the largest value; indices are i64. Everything works
/// inside capture() unless the shape of a result depends on values.
namespace etna {

/// Values along a dimension and their original positions.
struct ValuesIndices {
  Tensor values, indices;
};

// ---- sorting along one dimension. Equal elements keep their order: stable sorting costs nothing here.
ValuesIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = true);
/// The indices of sort().
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = true);
/// Values sorted along dimension 0.
Tensor msort(const Tensor& x);
/// The k largest (or smallest) elements, always sorted; of equal elements the first are taken.
/// @throws ShapeError if k is outside [0, size of the dimension]
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true);
/// The k-th smallest element, k from 1 on.
ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keepdim = false);

// ---- order statistics
/// The lower of the two middle elements; NaN if x has a NaN. Without `dim`: of all elements, and elements equal to it
/// share the gradient.
Tensor median(const Tensor& x);
/// The median along one dimension and its index.
ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The median of the elements that are not NaN.
Tensor nanmedian(const Tensor& x);
/// The median of the elements that are not NaN along one dimension, and its index.
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// @param q in [0, 1] @param interpolation linear, lower, higher, midpoint or nearest
/// @return the quantile of all elements if there is no `dim`
Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
/// @param q [] or [Q] of x's dtype @return of shape [Q, ...] for a list
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
/// quantile() of the elements that are not NaN.
Tensor nanquantile(const Tensor& x, double q, std::optional<std::int64_t> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
/// quantile() of the elements that are not NaN.
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<std::int64_t> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
/// The most frequent value (the smallest if several are) and its last index.
ValuesIndices mode(const Tensor& x, std::int64_t dim = -1, bool keepdim = false);
/// The largest element along one dimension and its first index. The gradient goes to that element; max() over a list of
/// dimensions shares it among equal elements.
ValuesIndices max_with_indices(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The smallest element along one dimension and its first index.
ValuesIndices min_with_indices(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// max_with_indices(): auto [values, indices] = max(x, 1). A list of dimensions, as in max(x, {1}), returns only
/// values.
template <std::integral Dim>
ValuesIndices max(const Tensor& x, Dim dim, bool keepdim = false) {
  return max_with_indices(x, dim, keepdim);
}
/// min_with_indices().
template <std::integral Dim>
ValuesIndices min(const Tensor& x, Dim dim, bool keepdim = false) {
  return min_with_indices(x, dim, keepdim);
}
template <std::integral Dim>
ValuesIndices Tensor::max(Dim dim, bool keepdim) const {
  return max_with_indices(*this, dim, keepdim);
}
template <std::integral Dim>
ValuesIndices Tensor::min(Dim dim, bool keepdim) const {
  return min_with_indices(*this, dim, keepdim);
}

// ---- search
/// The positions at which to insert values into sorted rows: before equal elements, or after them if `right`.
/// @param sorted [N], or [..., N] with the leading dimensions of `values` @return values' shape: i64, or i32 if
/// `out_int32`
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool out_int32 = false, bool right = false);
Tensor searchsorted(const Tensor& sorted, double value, bool out_int32 = false, bool right = false);
/// The same with the arguments exchanged. @param boundaries [N], sorted
Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool out_int32 = false, bool right = false);

// ---- counting
/// The number of elements in each of `bins` equal intervals of [min, max]; the last one includes max. If min = max, the
/// range is that from the smallest to the largest element. Elements outside the range and NaN are not counted. @return
/// [bins], x's dtype
Tensor histc(const Tensor& x, std::int64_t bins = 100, double min = 0, double max = 0);
/// The number of times each integer occurs, or the sum of its weights. Reads the largest integer on the host.
/// @param x [N] of integers ≥ 0 @return [max(minlength, largest + 1)]: i64, or weights' dtype
Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t minlength = 0);

/// The result of unique() and unique_consecutive().
struct Unique {
  Tensor values;
  Tensor inverse;  ///< position of each element's value among the values; undefined unless requested
  Tensor counts;   ///< number of occurrences of each value; undefined unless requested
};
/// The distinct values, sorted. Each NaN differs from the others. Their number is read on the host. With `dim`: the
/// distinct slices along it, sorted by their first elements, then by their second ones, and so on: one stable sort for
/// each element of a slice.
Unique unique(const Tensor& x, bool return_inverse = false, bool return_counts = false,
              std::optional<std::int64_t> dim = {});
/// Removes repeats of neighbours, in the flattened x or among the slices along `dim`.
Unique unique_consecutive(const Tensor& x, bool return_inverse = false, bool return_counts = false,
                          std::optional<std::int64_t> dim = {});

}  // namespace etna
