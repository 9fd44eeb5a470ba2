#pragma once

#include <cstdint>
#include <optional>

#include <etna/device/arguments.h>
#include <etna/tensor/dtype.h>

namespace etna::gemm {

/// A batch of matrices as Hopper's copy engine addresses them, and the box it copies at a time.
struct TiledMatrix {
  Pointer at;
  DType dtype = DType::f32;            ///< of 2 or 4 bytes
  std::int64_t columns = 0, rows = 0;  ///< elements of a stored row; stored rows
  std::int64_t leading = 0;            ///< elements from one stored row to the next
  std::int64_t matrices = 1, stride = 0;
  std::int64_t box_rows = 0;  ///< at most 256; a box is 128 bytes wide and lands in 128-byte swizzle
};

/// The 128 bytes that describe it (hopper::TensorMap), from which a kernel reads the matrix. The layout was read off
/// what CUDA's driver makes of such matrices, field by field; nothing of CUDA is called here. The address stands in the
/// first eight bytes. Empty where the engine cannot: it wants everything but columns and rows to be multiples of 16
/// bytes.
std::optional<Arguments> tensor_map(const TiledMatrix& matrix);

}  // namespace etna::gemm
