#pragma once

#include <etna/tensor/ops/matmul/gemm/gemm_params.h>

/// The gemm behind matmul and linear.
namespace etna::gemm {

/// How a matrix lies in memory: rows one after another, or, transposed, columns.
struct Matrix {
  bool transposed = false;
  std::int64_t leading = 1;  ///< elements from one stored row (or column) to the next
};

/// y = a · b over a batch. Batch dimensions are merged where strides allow it; the matrices of y follow one another.
/// Where b is the same for the whole batch and a's rows are evenly spaced, the batch is folded into m.
struct Plan {
  std::int64_t m = 0, n = 0, k = 0;
  Tensor a, b;  ///< the operands, copied only where neither of the last two strides is 1
  Matrix a_matrix, b_matrix;
  Shape batch;
  Strides a_batch, b_batch;  ///< 0 where an operand is repeated
};

/// The batch dimensions of a · b: those of a [..., M, K] and b [..., K, N], broadcast.
/// @throws ShapeError where they do not broadcast, or with the matrix's two are too many
Shape batch_of(const OpCall& call, const Tensor& a, const Tensor& b);

/// @param a [..., M, K] @param b [..., K, N], broadcasting, of one dtype
Plan plan(const Tensor& a, const Tensor& b);

/// @param a [..., M, K] @param b [..., K, N] broadcasting, of one floating dtype
/// @param y [..., M, N] of any floating dtype, contiguous or a view: where its rows are evenly spaced it is written in
/// place
void cpu(const Tensor& a, const Tensor& b, const Epilogue& epilogue, Tensor& y);

/// Elements from the start to the index-th matrix of a batch.
std::int64_t offset_of(std::int64_t index, const Shape& batch, const Strides& strides);

/// Elements from row to row where those of all matrices of x are evenly spaced and whole; 0 otherwise.
std::int64_t spacing(const Tensor& x);
/// x, or a copy whose rows are evenly spaced.
Tensor readable(const Tensor& x);

/// False for dtypes that have no kernel.
bool on_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Epilogue& epilogue, Tensor& y);

}  // namespace etna::gemm
