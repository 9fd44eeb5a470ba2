#pragma once

#include <cstdint>
#include <optional>

#include <etna/device/arguments.h>
#include <etna/tensor/dtype.h>

namespace etna::gemm {

/// A batch of matrices as Hopper's copy engine addresses it, and the box that it copies at a time.
struct TiledMatrix {
  Pointer at;
  DType dtype = DType::f32;            ///< of 2 or 4 bytes
  std::int64_t columns = 0, rows = 0;  ///< elements of a stored row; stored rows
  std::int64_t leading = 0;            ///< elements from one stored row to the next
  std::int64_t matrices = 1, stride = 0;
  std::int64_t box_rows = 0;  ///< at most 256; a box is 128 bytes wide and is stored with the 128-byte swizzle
};

/// The 128-byte descriptor (hopper::TensorMap) through which a kernel reads the matrix; the address is in the first
/// eight bytes. The layout was derived field by field from descriptors that CUDA's driver makes; this code does not
/// call CUDA. Empty if the engine cannot address the matrix: everything except columns and rows must be a multiple of
/// 16 bytes.
std::optional<Arguments> tensor_map(const TiledMatrix& matrix);

/// A batch of heads [batch, heads, rows, size], of 2 bytes an element.
struct TiledHeads {
  Pointer at;
  std::int64_t size = 0, rows = 0, heads = 0, batch = 0;
  std::int64_t row_stride = 0, head_stride = 0, batch_stride = 0;  ///< in elements
  std::int64_t box_rows = 0;  ///< at most 256; a box holds 64 elements of each, with the 128-byte swizzle
  std::int64_t box_heads = 1;
};

/// The same descriptor for boxes of heads (hopper::copy_box). Empty if the engine cannot address them: as above.
std::optional<Arguments> tensor_map(const TiledHeads& heads);

/// Channels-last images [images, height, width, channels] whose pixels the copy engine visits.
struct TiledImages {
  Pointer at;
  DType dtype = DType::f32;
  std::int64_t channels = 0, width = 0, height = 0, images = 0;
  std::int64_t first_x = 0, first_y = 0;    ///< where the walk starts in a row and in an image; may be negative
  std::int64_t places_x = 0, places_y = 0;  ///< number of pixels it visits along each
  std::int64_t stride_x = 1, stride_y = 1;
  std::int64_t box_pixels = 0;  ///< a box holds 128 bytes of channels of this many pixels
};

/// The same descriptor for copies of pixels (hopper::copy_pixels). Empty if the engine cannot walk the images this way.
std::optional<Arguments> tensor_map(const TiledImages& images);

}  // namespace etna::gemm
