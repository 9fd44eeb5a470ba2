#include <etna/tensor/vulkan.h>

namespace etna::vulkan {

Range range(const Tensor& x) {
  std::int64_t last = 0;
  for (int i = 0; i < x.dim(); ++i) {
    if (x.shape()[i] == 0) return {x.address(), 0};
    last += (x.shape()[i] - 1) * x.strides()[i];
  }
  return {x.address(), static_cast<std::uint64_t>(last + 1) * item_size(x.dtype())};
}

std::array<std::uint32_t, 3> grid(std::int64_t count) {
  constexpr std::int64_t limit = 65535;
  if (count <= limit) return {static_cast<std::uint32_t>(count), 1, 1};
  std::int64_t rows = (count + limit - 1) / limit;
  return {static_cast<std::uint32_t>((count + rows - 1) / rows), static_cast<std::uint32_t>(rows), 1};
}

}  // namespace etna::vulkan
