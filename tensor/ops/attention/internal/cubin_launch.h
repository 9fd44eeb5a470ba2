#pragma once

#include <etna/device/kernel.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>

/// What the launches of attention's kernels for Hopper share.
namespace etna::attention {

inline constexpr float kLog2E = 1.44269504088896f;

/// A kernel's parameters.
struct CubinParameters : Arguments {
  template <typename... N>
  void u32s(N... n) {
    (number(gpu::u32(n)), ...);
  }
  /// Of batch, head and row.
  void strides(const Tensor& x) { u32s(x.strides()[0], x.strides()[1], x.strides()[2]); }
};

/// The copy engine's description of heads [B, H, T, D] of 16 bits an element.
inline std::optional<Arguments> map_of(const Tensor& x, std::int64_t box_rows) {
  return gemm::tensor_map(gemm::TiledHeads{.at = gpu::pointer(x),
                                           .size = x.size(3),
                                           .rows = x.size(2),
                                           .heads = x.size(1),
                                           .batch = x.size(0),
                                           .row_stride = x.strides()[2],
                                           .head_stride = x.strides()[1],
                                           .batch_stride = x.strides()[0],
                                           .box_rows = box_rows});
}

inline std::int64_t units_of(Device device) {
  return static_cast<std::int64_t>(gpu::capabilities(device).compute_units);
}

/// Whether rows begin at multiples of 16 bytes and strides fit 32 bits.
inline bool storable(const Tensor& x) {
  const auto vector = static_cast<std::int64_t>(16 / item_size(x.dtype()));
  if (gpu::pointer(x).address % 16 != 0 || x.strides()[3] != 1) return false;
  for (int d = 0; d < 3; ++d) {
    if (x.strides()[d] % vector != 0 || x.strides()[d] >= std::int64_t{1} << 32) return false;
  }
  return true;
}

}  // namespace etna::attention
