#pragma once

#include <cstdint>
#include <span>

/// How a product is cut into workgroups on a GPU.
namespace etna::product {

/// Sizes of the products of a batch.
struct Extent {
  std::int64_t m = 0, n = 0, k = 0, matrices = 1;
};

/// What a multiprocessor does with workgroups of a tile size, as fitted to measurements.
struct Tile {
  std::int64_t m, n;
  std::int64_t resident;  ///< workgroups that gain from running at once
  double alone, shared;   ///< multiplications a clock that one reaches, and that many reach together
  double start;           ///< clocks that pass before the first product and after the last
};

/// Which of some tiles, and the number of parts that k is cut into.
struct Cut {
  std::size_t tile = 0;
  std::int64_t splits = 1;
};

/// The cut that should take the shortest on a device of `units` multiprocessors. The same extents give the same cut, and so the
/// same sums.
Cut choose_cut(const Extent& extent, std::int64_t units, std::span<const Tile> tiles);

/// Clocks that a cut should take.
double clocks(const Extent& extent, std::int64_t units, const Tile& tile, std::int64_t splits);

/// The tiles of shaders/gemm.comp, and of shaders/lib/gemm_matrix.glsl, largest first.
std::span<const Tile> plain_tiles();
std::span<const Tile> coopmat_tiles();
/// Those of shaders/gemm_coopmat2.comp.
std::span<const Tile> coopmat2_tiles();
/// Those of the Hopper tier; f32 has the first only.
std::span<const Tile> cubin_tiles();

}  // namespace etna::product
