#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <etna/tensor/tensor.h>

/// Functions that move, repeat and regroup elements. They work for every dtype; the floating ones are differentiable.
namespace etna {

// ---- order
/// Reversed along the given dimensions. A copy.
Tensor flip(const Tensor& x, Dims dims);
Tensor fliplr(const Tensor& x);  ///< along dimension 1
Tensor flipud(const Tensor& x);  ///< along dimension 0
/// Shifts elements along dimensions; elements pushed over one end return at the other. Without dims, shifts x in
/// flattened order. @throws ShapeError unless each shift has a dimension
Tensor roll(const Tensor& x, Dims shifts, Dims dims = {});
/// Rotates by k · 90° in the plane of two dimensions, from the first toward the second.
Tensor rot90(const Tensor& x, std::int64_t k = 1, Dims dims = {0, 1});
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);  ///< x.transpose(a, b); also named swapdims
/// x.transpose(a, b)
Tensor swapdims(const Tensor& x, std::int64_t a, std::int64_t b);
/// A view whose dimensions `source` are at `destination`; the others keep their order.
Tensor movedim(const Tensor& x, Dims source, Dims destination);
Tensor moveaxis(const Tensor& x, Dims source, Dims destination);

// ---- diagonals
/// A view of the diagonal of two dimensions, which becomes the last dimension. @param offset > 0: above the main one
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1);
/// Zeros, with the last dimension of x on a diagonal of two dimensions of the result.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = -2, std::int64_t dim2 = -1);
/// A matrix with x [N] on a diagonal, or a copy of a diagonal of x [N, M].
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);
/// A square matrix with x, flattened, on a diagonal.
Tensor diagflat(const Tensor& x, std::int64_t offset = 0);
/// A matrix with the tensors along its diagonal and zeros elsewhere. @param tensors [M, N], [N] as a row, or []
Tensor block_diag(const std::vector<Tensor>& tensors);

// ---- repetition
/// x as a view of a shape that it broadcasts to.
Tensor broadcast_to(const Tensor& x, Shape shape);
/// Views of the shape that the tensors broadcast to.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// Repeats the whole of x repeats[d] times along each dimension. Extra numbers add leading dimensions.
Tensor repeat(const Tensor& x, Dims repeats);
/// The same; if there are fewer numbers than dimensions, they apply to the last ones.
Tensor tile(const Tensor& x, Dims repeats);
/// Repeats each element `repeats` times in a row. Without a dimension, repeats the elements of the flattened tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats);
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);
/// Repeats element i repeats[i] times. The counts are read on the host, so this fails in a step that is being captured.
/// @param repeats i64 or i32, [n] @throws ShapeError for a negative count, CaptureError while capturing
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::int64_t dim);
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats);

// ---- parts
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);  ///< a view
/// Views without the dimension, one for each position along it.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);
/// Views of `sections` nearly equal chunks, the larger ones first; or of chunks that end before each index, and at the
/// end. Negative indices count from the end. @throws ShapeError unless sections > 0
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices, std::int64_t dim = 0);
/// Overlapping windows of `size` elements along a dimension, `step` apart; what is left after the last whole one is not
/// taken. A copy, PyTorch's Tensor.unfold(). @param x [..., n, ...] @return [..., (n - size)/step + 1, ..., size]
/// @throws ShapeError unless size is in [1, n] and step at least 1
Tensor sliding_windows(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step = 1);
/// Adds up windows, `step` apart, where they overlap; the gradient of sliding_windows(). @param x [..., windows, ...,
/// size] @param length of the dimension, with zeros after the last window; 0: up to its end @return [..., length, ...]
/// @throws ShapeError for a length with more or fewer windows
Tensor overlap_add(const Tensor& x, std::int64_t dim, std::int64_t step, std::int64_t length = 0);
/// Splits one dimension; one size may be -1.
Tensor unflatten(const Tensor& x, std::int64_t dim, Dims sizes);
/// x, or its one element as [1].
Tensor atleast_1d(const Tensor& x);
/// x with leading dimensions of size 1 up to two dimensions.
Tensor atleast_2d(const Tensor& x);
/// x with dimensions of size 1 up to three: [N] becomes [1, N, 1], [M, N] becomes [M, N, 1].
Tensor atleast_3d(const Tensor& x);

// ---- grids and one-hot vectors
/// Coordinates of a grid, one tensor for each list. @param tensors [n] or [] @param indexing "ij", or "xy", which swaps
/// the first two dimensions of the results
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing = "ij");
/// Every combination of one element of each list. @param tensors [n] @return [product of the sizes, number of lists]
Tensor cartesian_prod(const std::vector<Tensor>& tensors);
/// Every choice of r elements of a list, in order. @param x [n] @return [count, r]
Tensor combinations(const Tensor& x, std::int64_t r = 2, bool with_replacement = false);
/// 1 at each index and 0 elsewhere, i64. Without num_classes the largest index is read on the host, so a step that is
/// being captured must pass it. @param index i64 or i32 @return [..., num_classes]
/// @throws IndexError for an index outside [0, num_classes), as described under indexing in <etna/tensor/ops.h>
Tensor one_hot(const Tensor& index, std::int64_t num_classes = -1);

}  // namespace etna
