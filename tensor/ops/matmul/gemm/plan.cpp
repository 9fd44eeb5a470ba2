#include <array>

#include <fmt/format.h>

#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>

namespace etna::gemm {
namespace {

/// Describes the last two dimensions of x; copies x if it is neither row-major nor column-major.
Matrix matrix_of(Tensor& x) {
  for (;;) {
    int last = x.dim() - 1;
    std::int64_t rows = x.shape()[last - 1], columns = x.shape()[last];
    std::int64_t row_stride = x.strides()[last - 1], column_stride = x.strides()[last];
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
      return {false, rows == 1 ? columns : row_stride};
    }
    if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
      return {true, columns == 1 ? rows : column_stride};
    }
    x = x.clone();
  }
}

Shape without_matrix(const Shape& shape) {
  Shape batch = shape;
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}

/// True if the rows of all matrices of a are evenly spaced, one matrix after another.
bool rows_run_on(const Shape& batch, const Strides& strides, std::int64_t m, const Matrix& matrix) {
  if (matrix.transposed) return false;
  std::int64_t expected = m * matrix.leading;
  for (int d = batch.rank() - 1; d >= 0; --d) {
    if (batch[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= batch[d];
  }
  return true;
}

bool repeated(const Shape& batch, const Strides& strides) {
  for (int d = 0; d < batch.rank(); ++d) {
    if (batch[d] != 1 && strides[d] != 0) return false;
  }
  return true;
}

Strides batch_strides(const Tensor& x, const Shape& batch) {
  Shape whole = batch;
  whole.push_back(x.shape()[x.dim() - 2]);
  whole.push_back(x.shape()[x.dim() - 1]);
  return without_matrix(broadcast_strides(x, whole));
}

}  // namespace

Shape batch_of(const OpCall& call, const Tensor& a, const Tensor& b) {
  Shape batch = broadcast(without_matrix(a.shape()), without_matrix(b.shape()), call.op.name);
  if (batch.rank() > kMaxRank - 2) {
    throw ShapeError(fmt::format("{}: a {} · b {} has more than {} dimensions", call.op.name, str(a.shape()),
                                 str(b.shape()), kMaxRank));
  }
  return batch;
}

Plan plan(const Tensor& a, const Tensor& b) {
  Plan p;
  p.a = a;
  p.b = b;
  p.m = a.size(-2), p.k = a.size(-1), p.n = b.size(-1);
  if (p.k > 0) {
    p.a_matrix = matrix_of(p.a);
    p.b_matrix = matrix_of(p.b);
  }
  Shape batch = broadcast(without_matrix(a.shape()), without_matrix(b.shape()), "matmul");
  Strides a_strides = batch_strides(p.a, batch), b_strides = batch_strides(p.b, batch);
  if (p.m == 1 && !p.a_matrix.transposed) {
    // With a single row per matrix, the row stride is arbitrary: the innermost batch stride may serve.
    int inner = batch.rank() - 1;
    while (inner >= 0 && batch[inner] == 1) --inner;
    if (inner >= 0 && a_strides[inner] >= p.k) p.a_matrix.leading = a_strides[inner];
  }
  if (repeated(batch, b_strides) && rows_run_on(batch, a_strides, p.m, p.a_matrix)) {
    p.m *= numel(batch);
    return p;
  }
  Layout merged;
  for (int d = 0; d < batch.rank(); ++d) merged.append(batch[d], std::array{a_strides[d], b_strides[d]});
  p.batch = merged.shape, p.a_batch = merged.strides[0], p.b_batch = merged.strides[1];
  return p;
}

}  // namespace etna::gemm
