#include <etna/device/internal/graph/fusion_info.h>

namespace etna::gpu {

StridedView::StridedView(std::uint64_t at, std::uint32_t of, std::span<const std::uint32_t> all_sizes,
                         std::span<const std::uint32_t> all_strides)
    : address(at), dtype(of) {
  for (std::size_t d = 0; d < all_sizes.size(); ++d) {
    if (all_sizes[d] == 1) continue;
    if (rank > 0 && strides[rank - 1] == all_strides[d] * all_sizes[d]) {
      sizes[rank - 1] *= all_sizes[d];
      strides[rank - 1] = all_strides[d];
    } else {
      sizes[rank] = all_sizes[d];
      strides[rank] = all_strides[d];
      ++rank;
    }
  }
}

std::uint32_t StridedView::count() const {
  std::uint32_t n = 1;
  for (std::uint32_t d = 0; d < rank; ++d) n *= sizes[d];
  return n;
}

std::uint32_t StridedView::item_bytes() const {
  constexpr std::uint32_t bytes[] = {8, 4, 2, 2, 8, 4, 1, 1, 1};
  return bytes[dtype];
}

MemoryRange StridedView::range() const {
  std::uint64_t last = 0;
  for (std::uint32_t d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return {address, 0};
    last += std::uint64_t{sizes[d] - 1} * strides[d];
  }
  return {address, (last + 1) * item_bytes()};
}

}  // namespace etna::gpu
