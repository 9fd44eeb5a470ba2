#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <etna/tensor/tensor.h>

/// Sums of products in Einstein's notation, and the products of linear algebra with PyTorch's names. All are composed
/// of matmul and elementwise ops, so they run wherever these do, with gradients of every order. Integers multiply
/// exactly and wrap around; bool is not supported.
namespace etna {

/// Sums products of elements as the equation says: "bij,bjk->bik" is a batched matmul. Letters name dimensions. A
/// letter that the output omits is summed over; a letter that an operand repeats takes its diagonal; "..." stands for
/// leading dimensions that broadcast. Without "->" the output has the dimensions of "..." and then the letters that
/// occur once, in alphabetical order (capitals first). A size of 1 broadcasts. Spaces are skipped. Several operands are
/// contracted two at a time, each time the pair whose result grows least; a pair is one matmul.
/// @throws ShapeError quoting the equation if it is malformed, or does not fit the operands
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
template <typename... More>
Tensor einsum(std::string_view equation, const Tensor& first, const More&... more) {
  return einsum(equation, std::vector<Tensor>{first, more...});
}

/// Sums over the last `dims` dimensions of a and the first of b. @return a's other dimensions, then b's
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t dims = 2);
/// Sums over dims_a[i] of a together with dims_b[i] of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<std::int64_t>& dims_a,
                 const std::vector<std::int64_t>& dims_b);

// These do not broadcast: another rank is a ShapeError.
Tensor mm(const Tensor& a, const Tensor& b);     ///< [M, K] · [K, N]
Tensor bmm(const Tensor& a, const Tensor& b);    ///< [B, M, K] · [B, K, N]
Tensor mv(const Tensor& a, const Tensor& x);     ///< [M, K] · [K]
Tensor dot(const Tensor& a, const Tensor& b);    ///< [K] · [K]
Tensor vdot(const Tensor& a, const Tensor& b);   ///< dot: there are no complex numbers to conjugate
Tensor outer(const Tensor& a, const Tensor& b);  ///< [M], [N] → [M, N]
/// Sums over the last dimensions of both; with a 0-d operand it multiplies elementwise.
Tensor inner(const Tensor& a, const Tensor& b);

// beta · input + alpha · (the product); input broadcasts to the product's shape. With beta 0 the input is not read, so
// its NaNs do not propagate.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& x, double beta = 1, double alpha = 1);
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// Adds up the products of the batch. @param input broadcasts to [M, N]
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

/// Kronecker product. The operand with fewer dimensions gets leading dimensions of size 1. @param a, b at most 4
/// dimensions
Tensor kron(const Tensor& a, const Tensor& b);
/// The sum of a matrix's diagonal. Integers sum to i64.
Tensor trace(const Tensor& x);
/// x [..., N, N] multiplied by itself n times, by squaring. A negative n takes powers of the inverse.
Tensor matrix_power(const Tensor& x, std::int64_t n);
/// The product of matrices in the order with the fewest multiplications. The first operand may be a row [K], the last a
/// column [K]; that dimension is then dropped.
Tensor multi_dot(const std::vector<Tensor>& matrices);
/// multi_dot() of matrices only.
Tensor chain_matmul(const std::vector<Tensor>& matrices);
/// Cross product along a dimension of size 3 of broadcasting operands; by default the first such dimension.
Tensor cross(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim);

namespace detail {
/// The n x n identity matrix, generated on the device.
Tensor identity(std::int64_t n, TensorOptions options);
/// The elements of x whose indices along dimensions `a` and `b`, of equal size, are equal; they become the last
/// dimension of the result. A view if strides allow it.
Tensor equal_indices(const Tensor& x, int a, int b);
/// Multiplies integer matrices exactly, modulo 2^bits. matmul() calls it for integer operands.
Tensor integer_matmul(const Tensor& a, const Tensor& b);
}  // namespace detail

}  // namespace etna
