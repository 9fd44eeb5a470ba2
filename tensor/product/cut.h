#pragma once

#include <cstdint>

/// How a product is cut into workgroups on a GPU.
namespace etna::product {

/// Sizes of the products of a batch.
struct Extent {
  std::int64_t m = 0, n = 0, k = 0, matrices = 1;
};

/// Edge of the square tiles, and the number of parts that k is cut into.
struct Cut {
  std::int64_t tile = 128, splits = 1;
};

/// The cut that should take the shortest on a device of `units` multiprocessors. The same extents give the same cut, and so the
/// same sums.
Cut choose_cut(const Extent& extent, std::int64_t units);

}  // namespace etna::product
