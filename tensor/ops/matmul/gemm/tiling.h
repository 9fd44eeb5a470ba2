#pragma once

#include <cstdint>
#include <span>

/// How the work of a gemm is tiled on a GPU, and whether k is split.
namespace etna::gemm {

/// Sizes of the gemms of a batch.
struct Extent {
  std::int64_t m = 0, n = 0, k = 0, matrices = 1;
};

/// What a multiprocessor does with workgroups of a tile size, as fitted to measurements.
struct Tile {
  std::int64_t m, n;
  std::int64_t resident;  ///< workgroups that gain from running at once
  double alone, shared;   ///< multiplications a clock that one reaches, and that many reach together
  double start;           ///< clocks that pass before the first multiplication and after the last
};

/// Which of some tiles, and how many workgroups share one, each with its part of k.
struct Tiling {
  std::size_t tile = 0;
  std::int64_t split_k = 1;
};

/// The tiling that should take the shortest on a device of `units` multiprocessors. The same extents give the same
/// tiling, and so the same sums.
Tiling choose_tiling(const Extent& extent, std::int64_t units, std::span<const Tile> tiles);

/// Clocks that a tiling should take.
double estimated_clocks(const Extent& extent, std::int64_t units, const Tile& tile, std::int64_t split_k);

/// The tiles of shaders/gemm.comp, and of shaders/lib/gemm_matrix.glsl, largest first.
std::span<const Tile> plain_tiles();
std::span<const Tile> coopmat_tiles();
/// Those of the Hopper variant; f32 has the first only.
std::span<const Tile> cubin_tiles();

}  // namespace etna::gemm
