#pragma once

#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/kernel.h>

/// Rows of strided tensors for GPU kernels built on shaders/lib/row_threads.glsl.
namespace etna::rows {

inline constexpr std::int64_t kThreads = 256;

/// A tensor's rows along one dimension, indexed by the dimensions before it (outer) and after it (inner).
struct Strided {
  Tensor x;
  std::int64_t rows = 1, length = 1, inner = 1;
  std::uint32_t strides[3] = {};  ///< outer, inner, along

  /// Copies x if the dimensions before, or those after, do not merge into one.
  Strided(const Tensor& given, int dim) : x(given) {
    if (!merge(dim)) {
      x = given.contiguous();
      merge(dim);
    }
  }

 private:
  bool merge(int dim) {
    length = 1;
    std::int64_t stride_along = 0;
    Layout before, after;
    for (int d = 0; d < x.dim(); ++d) {
      const std::int64_t size = x.shape()[d], stride = x.strides()[d];
      if (d == dim) {
        length = size;
        stride_along = stride;
      } else {
        (d < dim ? before : after).append(size, {&stride, 1});
      }
    }
    inner = numel(after.shape);
    rows = numel(before.shape) * inner;
    if (before.shape.rank() > 1 || after.shape.rank() > 1) return false;
    strides[0] = before.shape.empty() ? 0 : gpu::u32(before.strides[0][0]);
    strides[1] = after.shape.empty() ? 0 : gpu::u32(after.strides[0][0]);
    strides[2] = gpu::u32(stride_along);
    return true;
  }
};

/// How rows are tiled over a workgroup's threads. Few choices, since each needs its own pipeline.
struct RowTiling {
  std::int64_t threads_per_row = kThreads;  ///< threads per row
  std::int64_t elements_per_thread = 0;     ///< elements per thread, in registers; 0: rows are too long for registers
  bool columns = false;                     ///< neighbouring threads work on neighbouring rows

  std::int64_t slots() const { return kThreads / threads_per_row; }
  std::int64_t groups(std::int64_t rows) const { return (rows + slots() - 1) / slots(); }
};

/// @param most maximum elements per thread
inline RowTiling tiling_for(std::int64_t length, bool columns, std::int64_t most) {
  if (columns) return {8, length <= 64 && most >= 8 ? 8 : 0, true};
  for (RowTiling choice :
       {RowTiling{8, 4}, RowTiling{32, 4}, RowTiling{64, 8}, RowTiling{256, 4}, RowTiling{256, 16}}) {
    if (choice.elements_per_thread <= most && length <= choice.threads_per_row * choice.elements_per_thread)
      return choice;
  }
  return {};
}

}  // namespace etna::rows
