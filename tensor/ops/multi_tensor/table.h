#pragma once

#include <cstdint>
#include <span>

#include <etna/tensor/tensor.h>

/// Many tensors in one dispatch: the table that says where they lie.
namespace etna::multi_tensor {

/// One tensor's line in the table that kernels read: addresses of up to four tensors walked together, their size, the first
/// piece, and the dtypes of the first two (the others are f32). Laid out as in shaders/lib/multi_tensor.glsl.
struct Row {
  std::uint64_t address[4] = {};
  std::uint32_t elements = 0, first_piece = 0;
  std::uint32_t dtype[2] = {};
};
static_assert(sizeof(Row) == 48);

/// What kernels get: numbers and rows, on the device.
struct Table {
  Tensor storage;  ///< bytes
  std::uint64_t scalars = 0, rows = 0;
  std::uint32_t count = 0;
  std::uint32_t common_dtype[2] = {};  ///< of every row, or kMixed
  std::uint32_t width = 4;             ///< elements that may be loaded at once, in every tensor: 4 or 1
};
inline constexpr std::uint32_t kMixed = 255;
inline constexpr std::size_t kScalars = 16;

/// Queues the table's bytes; they travel in the command buffer, so this is no transfer.
Table make_table(Device device, std::span<const float> scalars, std::span<const Row> rows);

}  // namespace etna::multi_tensor
