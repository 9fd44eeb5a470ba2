#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// The gemm behind matmul and linear.
namespace etna::gemm {

/// The memory layout of a matrix: rows one after another, or, transposed, columns.
struct Matrix {
  bool transposed = false;
  std::int64_t leading = 1;  ///< elements from one stored row (or column) to the next
};

/// y = a · b over a batch. Batch dimensions are merged if strides allow it; the matrices of y are contiguous one after
/// another. If b is the same for the whole batch and a's rows are evenly spaced, the batch is folded into m.
struct Plan {
  std::int64_t m = 0, n = 0, k = 0;
  Tensor a, b;  ///< the operands, copied only if neither of the last two strides is 1
  Matrix a_matrix, b_matrix;
  Shape batch;
  Strides a_batch, b_batch;  ///< 0 if an operand is repeated
};

/// The batch dimensions of a · b: those of a [..., M, K] and b [..., K, N], broadcast.
/// @throws ShapeError if they do not broadcast, or exceed the maximum rank together with the matrix dimensions
Shape batch_of(const OpCall& call, const Tensor& a, const Tensor& b);

/// @param a [..., M, K] @param b [..., K, N], broadcasting, of one dtype
Plan plan(const Tensor& a, const Tensor& b);

/// @param a [..., M, K] @param b [..., K, N] broadcasting, of one floating dtype
/// @param y [..., M, N] of any floating dtype, contiguous or a view; written in place if its rows are evenly spaced
void cpu(const Tensor& a, const Tensor& b, const Epilogue& epilogue, Tensor& y);

/// Offset in elements of the index-th matrix of a batch.
std::int64_t offset_of(std::int64_t index, const Shape& batch, const Strides& strides);

/// Row stride in elements if the rows of all matrices of x are dense and evenly spaced; 0 otherwise.
std::int64_t spacing(const Tensor& x);
/// x, or a copy whose rows are evenly spaced.
Tensor readable(const Tensor& x);

/// Returns false for dtypes without a kernel.
bool on_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Epilogue& epilogue, Tensor& y);

}  // namespace etna::gemm
