#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include <etna/tensor/tensor.h>

/// Reading and writing by index, as in PyTorch. An index outside its dimension throws IndexError: on the CPU at the
/// call, on a GPU at the next call that waits for the device; until then the nearest valid index is used. If several
/// elements are written to one place, the last stays, or they are combined in order, with the same bits in every run.
namespace etna {

// ---- rows of a table
/// Rows of a table.
/// @param weight [V, D] @param index [...] i64 or i32 in [0, V)
/// @param padding_idx a row without a gradient; a negative index counts from the end
/// @return [..., D]
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_idx = {});
/// The gradient of embedding: adds row i of `grad` [..., D] to row index[i] of the result, in order. @return [rows, D]
Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t rows);
/// Adds to an existing table: table[index[i]] += source[i]. In place, recorded; the table is contiguous.
/// @param table [rows, D] @param source [..., D] of the table's dtype
void index_add_(const Tensor& table, const Tensor& index, const Tensor& source);
/// How the rows of a bag are reduced to one.
enum class BagMode { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;              ///< true: the last offset only ends the last bag
  std::optional<std::int64_t> padding_idx = {};  ///< a row that bags ignore and that gets no gradient
};

/// The sum, mean or maximum of the rows of a table that belong to each bag; 0 for a bag without rows.
/// @param weight [rows, dim] @param index [B, N] i64 or i32, one bag per row; or [N] with offsets
/// @param offsets [B], i64 or i32, ascending: the start of each bag in `index`, the first at 0. Not checked, since the
/// host does not read them. The maximum of bags with offsets needs B·N·dim elements of memory.
/// @param per_sample_weights of index's shape: factors of the rows; with sum only
/// @return [B, dim] @throws ShapeError, Error
Tensor embedding_bag(const Tensor& weight, const Tensor& index, const Tensor& offsets = {},
                     const EmbeddingBagOptions& options = {}, const Tensor& per_sample_weights = {});

// ---- along one dimension
/// The slices of one dimension at these positions, copied.
/// @param index [K] i64 or i32
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// out[i][j] = x[index[i][j]][j] for dim 0. @param index of x's rank, no larger than x outside `dim`
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// A copy of x with out[index[i][j]][j] += source[i][j] for dim 0. Equal indices add up in order, so the bits do not
/// vary.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Elements [start, start + length) of one dimension, copied bit for bit. The start is a number on the device, so a
/// captured step reads it again at every replay (each_step() makes one that the host sets).
/// @param start 0-d, i64 or i32. Outside [0, size - length] it is an error on the CPU and is clamped on a GPU.
/// @throws ShapeError if the length is outside [0, size of the dimension]
Tensor dynamic_slice(const Tensor& x, std::int64_t dim, const Tensor& start, std::int64_t length);
/// A copy of x in which `update` replaces the elements [start, start + update.size(dim)) of one dimension.
/// @param update x's shape except in `dim`, x's dtype @param start as above
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::int64_t dim, const Tensor& start);

// ---- x[{Slice(1, 5), None, Ellipsis, 3, mask, index}]

struct NoneType {};
struct EllipsisType {};
inline constexpr NoneType None;          ///< a dimension of size 1
inline constexpr EllipsisType Ellipsis;  ///< all dimensions that the other entries leave

/// Elements start, start + step, ... before stop. Without bounds: to the end of the dimension in the step's direction.
/// Negative bounds count from the end. A negative step reads in descending order, as in NumPy, and copies.
struct Slice {
  struct Bound : std::optional<std::int64_t> {
    Bound(NoneType = None) {}
    template <typename T>
    requires std::is_integral_v<T> Bound(T value) : optional(static_cast<std::int64_t>(value)) {}
  };
  Bound start, stop;
  std::int64_t step = 1;
  Slice() = default;
  Slice(Bound stop) : stop(stop) {}
  Slice(Bound start, Bound stop, std::int64_t step = 1) : start(start), stop(stop), step(step) {}
};

/// One entry of an index: an integer (drops the dimension), a Slice, None, Ellipsis, true or false (a dimension of size
/// 1 or 0), a bool mask over as many dimensions as it has, or a tensor of i64 or i32 indices.
///
/// Masks and index tensors broadcast with each other. If the dimensions that they index are adjacent, the dimensions of
/// the result take their place, otherwise they come first. The host reads the number of true elements of a mask, so
/// masks throw CaptureError while a step is captured.
class Index {
 public:
  enum class Kind : std::uint8_t { integer, flag, none, ellipsis, slice, tensor };

  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Index(T value)
      : kind_(Kind::integer), integer_(static_cast<std::int64_t>(value)) {}
  template <typename T>
  requires std::is_same_v<T, bool> Index(T value) : kind_(Kind::flag), integer_(value) {}
  Index(NoneType) : kind_(Kind::none) {}
  Index(EllipsisType) : kind_(Kind::ellipsis) {}
  Index(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
  Index(const Tensor& index) : kind_(Kind::tensor), tensor_(index) {}

  Kind kind() const { return kind_; }
  std::int64_t integer() const { return integer_; }  ///< value of an integer; 1 or 0 for true or false
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  Slice slice_;
  Tensor tensor_;
};

/// The elements of x at `indices`: a view if they are integers, slices with positive steps, None and Ellipsis,
/// otherwise a copy. Differentiable.
/// @throws ShapeError for more indices than dimensions, or indices that do not broadcast
Tensor index(const Tensor& x, const std::vector<Index>& indices);
/// Writes to those elements; values broadcast and are converted to x's dtype. In place, recorded.
/// @param accumulate true: adds to the elements instead, in order
Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, const Tensor& values, bool accumulate = false);
Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, double value);
/// A copy of x with those elements replaced, or added to. Differentiable. @param values of x's dtype, broadcasts
Tensor index_put(const Tensor& x, const std::vector<Index>& indices, const Tensor& values, bool accumulate = false);

/// The result of `x[{...}]` and `x[mask]`: converts to a Tensor when read; an assignment writes to x.
class IndexedTensor {
 public:
  IndexedTensor(Tensor x, std::vector<Index> indices);
  IndexedTensor(const IndexedTensor& other);
  ~IndexedTensor();

  Tensor get() const;
  operator Tensor() const { return get(); }

  const IndexedTensor& operator=(const Tensor& values) const;
  const IndexedTensor& operator=(double value) const;
  const IndexedTensor& operator=(const IndexedTensor& other) const;
  const IndexedTensor& operator+=(const Tensor& other) const;
  const IndexedTensor& operator-=(const Tensor& other) const;
  const IndexedTensor& operator*=(const Tensor& other) const;
  const IndexedTensor& operator/=(const Tensor& other) const;
  const IndexedTensor& operator+=(double other) const;
  const IndexedTensor& operator-=(double other) const;
  const IndexedTensor& operator*=(double other) const;
  const IndexedTensor& operator/=(double other) const;

  // ---- the most frequently used properties of a result
  Shape shape() const { return get().shape(); }
  std::int64_t size(std::int64_t dim) const { return get().size(dim); }
  int dim() const { return get().dim(); }
  std::int64_t numel() const { return get().numel(); }
  DType dtype() const { return x_.dtype(); }
  template <typename T = float>
  T item() const {
    return get().template item<T>();
  }
  template <typename T>
  std::vector<T> to_vector() const {
    return get().template to_vector<T>();
  }
  Tensor to(Device device) const { return get().to(device); }
  Tensor to(DType dtype) const { return get().to(dtype); }
  Tensor reshape(Shape shape) const { return get().reshape(shape); }
  Tensor clone() const { return get().clone(); }
  Tensor sum(Dims dims = {}, bool keepdim = false) const { return get().sum(dims, keepdim); }
  Tensor mean(Dims dims = {}, bool keepdim = false) const { return get().mean(dims, keepdim); }
  Tensor max(Dims dims = {}, bool keepdim = false) const { return get().max(dims, keepdim); }
  Tensor min(Dims dims = {}, bool keepdim = false) const { return get().min(dims, keepdim); }
  template <std::integral Dim>
  auto max(Dim dim, bool keepdim = false) const {
    return get().max(dim, keepdim);
  }
  template <std::integral Dim>
  auto min(Dim dim, bool keepdim = false) const {
    return get().min(dim, keepdim);
  }
  Tensor operator[](std::int64_t i) const { return get()[i]; }

 private:
  Tensor& target() const { return x_; }
  mutable Tensor x_;  ///< a handle; its elements change
  std::vector<Index> indices_;
};

// ---- by position of true elements. The host reads the size of the result, so these throw CaptureError while a step is
// captured; masked_scatter() does not.

/// Coordinates of the elements that are not 0, in row-major order. @return [count, rank of x] i64
Tensor nonzero(const Tensor& x);
/// nonzero() under its NumPy name.
inline Tensor argwhere(const Tensor& x) { return nonzero(x); }
/// The elements for which the mask is true, in order. @param mask bool, broadcasts with x @return [count]
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// A copy of x in which the elements of `source`, in order, replace those for which the mask is true.
/// @param mask bool, broadcasts with x @param source of x's dtype, with at least as many elements as are true
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

// ---- along one dimension

/// A copy of x with out[index[i][j]][j] = source[i][j] for dim 0.
/// @param index of x's rank, i64 or i32, no larger than x outside `dim` @param source x's dtype, no smaller than index
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
/// scatter() that combines elements: "sum", "prod", "mean", "amax" or "amin". The mean is for floating dtypes. A
/// product has second derivatives except at zeros.
/// @param include_self true: x's own elements take part; otherwise they remain only where no index points
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self = true);
/// A copy of x with alpha · source[..., j, ...] added at index[j] of one dimension.
/// @param index [K] @param source x's shape with K in `dim`, x's dtype
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1);
/// index_add() with another way to combine elements, as in scatter_reduce(): "prod", "mean", "amax" or "amin".
Tensor index_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self = true);
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
/// out[i][j] = x[index[i][j]][j]; index and x broadcast outside `dim`. Without `dim`: treats x as a list.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim = {});

// ---- treating x as a list; negative indices count from the end
/// @return index's shape
Tensor take(const Tensor& x, const Tensor& index);
/// @param source of x's dtype, with as many elements as index
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);

// ---- the same in place, recorded
Tensor& scatter_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor& scatter_(Tensor& x, std::int64_t dim, const Tensor& index, double value);
Tensor& scatter_add_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor& scatter_reduce_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self = true);
Tensor& index_add_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1);
Tensor& index_reduce_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                      bool include_self = true);
Tensor& index_copy_(Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor& index_fill_(Tensor& x, std::int64_t dim, const Tensor& index, double value);
Tensor& put_(Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
Tensor& masked_scatter_(Tensor& x, const Tensor& mask, const Tensor& source);

}  // namespace etna
