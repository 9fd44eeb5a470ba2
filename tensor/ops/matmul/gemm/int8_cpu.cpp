#include <algorithm>

#include <Eigen/Core>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/int8.h>

// Uses Eigen's i32 gemm, a few rows per task. Operands are converted first: Eigen has no i8 gemm with wider sums.
namespace etna::gemm {
namespace {

using Sums = Eigen::Matrix<std::int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Int8CpuStored = Eigen::Map<const Sums, 0, Eigen::OuterStride<>>;

constexpr std::int64_t kInt8CpuRows = 32;  ///< per task

/// acc = rows [first, first + acc.rows()) of a · b
void int8_cpu_multiply(const Plan& p, const std::int32_t* a, const std::int32_t* b, std::int64_t first, Sums& acc) {
  std::int64_t count = acc.rows();
  const Eigen::OuterStride<> lda(p.a_matrix.leading), ldb(p.b_matrix.leading);
  auto by = [&](const auto& rows) {
    if (p.b_matrix.transposed)
      acc.noalias() = rows * Int8CpuStored(b, p.n, p.k, ldb).transpose();
    else
      acc.noalias() = rows * Int8CpuStored(b, p.k, p.n, ldb);
  };
  if (p.a_matrix.transposed)
    by(Int8CpuStored(a + first, p.k, count, lda).transpose());
  else
    by(Int8CpuStored(a + first * p.a_matrix.leading, count, p.k, lda));
}

/// The scale of an index; a scale of one element applies to all.
float scale_at(const Tensor& scale, std::int64_t index) {
  return !scale.defined() ? 1.0f : scale.host<float>()[scale.numel() == 1 ? 0 : index];
}

}  // namespace

void int8_cpu(const Tensor& a, const Tensor& b, const Int8Scales& scales, Tensor& y) {
  if (y.numel() == 0) return;
  if (a.size(-1) == 0) {
    y.zero_();
    return;
  }
  Plan p = plan(a.to(i32), b.to(i32));
  Tensor row = scales.row.defined() ? scales.row.contiguous() : Tensor();
  Tensor column = scales.column.defined() ? scales.column.contiguous() : Tensor();
  const bool scaled = row.defined() || column.defined() || y.dtype() != i32;
  Tensor out = scaled ? empty(y.shape(), {f32, kCPU}) : y;
  std::int64_t chunks = (p.m + kInt8CpuRows - 1) / kInt8CpuRows;
  cpu::parallel_for(numel(p.batch) * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    Sums acc;
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t matrix = task / chunks, first = task % chunks * kInt8CpuRows,
                   rows = std::min(kInt8CpuRows, p.m - first);
      acc.resize(rows, p.n);
      int8_cpu_multiply(p, p.a.host<std::int32_t>() + offset_of(matrix, p.batch, p.a_batch),
                        p.b.host<std::int32_t>() + offset_of(matrix, p.batch, p.b_batch), first, acc);
      for (std::int64_t i = 0; i < rows; ++i) {
        std::int64_t at = matrix * p.m + first + i;
        const std::int32_t* from = acc.data() + i * p.n;
        if (!scaled) {
          std::copy(from, from + p.n, out.host<std::int32_t>() + at * p.n);
          continue;
        }
        float* to = out.host<float>() + at * p.n;
        float by = scale_at(row, at);
        for (std::int64_t j = 0; j < p.n; ++j) to[j] = static_cast<float>(from[j]) * by * scale_at(column, j);
      }
    }
  });
  if (scaled) y.copy_(out);
}

}  // namespace etna::gemm
