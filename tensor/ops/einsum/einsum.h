#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <etna/tensor/tensor.h>

/// Sums of products in Einstein's notation, and the products of linear algebra with PyTorch's names. All are composed
/// of matmul and elementwise ops, so they run wherever these do, with gradients of every order. Integers multiply
/// exactly and wrap around; bool has no products.
namespace etna {

/// Sums products of elements as the equation says: "bij,bjk->bik" is a batch of matrix products. Letters name
/// dimensions; one that the output leaves out is summed over; one that an operand repeats takes its diagonal; "..."
/// stands for leading dimensions that broadcast. Without "->" the output has the dimensions of "..." and then the
/// letters that occur once, in alphabetical order (capitals first). A size of 1 broadcasts. Spaces are skipped.
/// Several operands are contracted two at a time, each time the pair whose result grows least; a pair is one matmul.
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

// The shapes of these are not broadcast: another rank is a ShapeError.
Tensor mm(const Tensor& a, const Tensor& b);     ///< [M, K] · [K, N]
Tensor bmm(const Tensor& a, const Tensor& b);    ///< [B, M, K] · [B, K, N]
Tensor mv(const Tensor& a, const Tensor& x);     ///< [M, K] · [K]
Tensor dot(const Tensor& a, const Tensor& b);    ///< [K] · [K]
Tensor vdot(const Tensor& a, const Tensor& b);   ///< dot: there are no complex numbers to conjugate
Tensor outer(const Tensor& a, const Tensor& b);  ///< [M], [N] → [M, N]
/// Sums over the last dimensions of both; with a 0-d operand the product of elements.
Tensor inner(const Tensor& a, const Tensor& b);

// beta · input + alpha · product; input broadcasts to the product. With beta 0 the input is not read, so its NaN do not
// pass.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& x, double beta = 1, double alpha = 1);
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// The products of the batch are added up. @param input broadcasts to [M, N]
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

/// Kronecker product. The operand of fewer dimensions gets leading ones of size 1. @param a, b at most 4 dimensions
Tensor kron(const Tensor& a, const Tensor& b);
/// The sum of a matrix's diagonal. Integers sum to i64.
Tensor trace(const Tensor& x);
/// x [..., N, N] multiplied by itself n times, by squaring. A negative n takes the inverse's powers.
Tensor matrix_power(const Tensor& x, std::int64_t n);
/// The product of matrices in the order of fewest multiplications. The first operand may be a row [K], the last a
/// column [K]; that dimension is then dropped.
Tensor multi_dot(const std::vector<Tensor>& matrices);
/// multi_dot() of matrices alone.
Tensor chain_matmul(const std::vector<Tensor>& matrices);
/// Cross product along a dimension of size 3 of broadcasting operands; by default the first such dimension.
Tensor cross(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim);

namespace detail {
/// The n x n identity matrix, made on the device.
Tensor identity(std::int64_t n, TensorOptions options);
/// The elements of x whose indices along dimensions `a` and `b`, of one size, are equal; as the last dimension of the
/// result. A view where strides allow it.
Tensor equal_indices(const Tensor& x, int a, int b);
/// Integer matrices multiplied exactly, modulo 2^bits. What matmul() runs for integer operands.
Tensor integer_matmul(const Tensor& a, const Tensor& b);
}  // namespace detail

}  // namespace etna
