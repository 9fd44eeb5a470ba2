#pragma once

#include <cstdint>
#include <span>

/// The tiling of a gemm on a GPU, and its split-K.
namespace etna::gemm {

/// Sizes of a batch of gemms.
struct Extent {
  std::int64_t m = 0, n = 0, k = 0, matrices = 1;
};

/// The speed of a multiprocessor with workgroups of a tile size, fitted to measurements.
struct Tile {
  std::int64_t m, n;
  std::int64_t resident;  ///< number of workgroups that gain from running at once
  double alone, shared;   ///< multiplications per clock of one workgroup, and of `resident` workgroups together
  double start;           ///< clocks before the first multiplication and after the last
};

/// The index of a tile, and the number of workgroups that share a tile, each with a chunk of k.
struct Tiling {
  std::size_t tile = 0;
  std::int64_t split_k = 1;
};

/// The tiling estimated to be fastest on a device of `units` multiprocessors. Depends on its arguments only, so the
/// same extents always give the same tiling and the same sums.
Tiling choose_tiling(const Extent& extent, std::int64_t units, std::span<const Tile> tiles);

/// Estimated clocks of a tiling.
double estimated_clocks(const Extent& extent, std::int64_t units, const Tile& tile, std::int64_t split_k);

/// The tiles of shaders/matmul/gemm.comp, and of shaders/lib/gemm_matrix.glsl, largest first.
std::span<const Tile> plain_tiles();
std::span<const Tile> coopmat_tiles();
/// The tiles of the Hopper variant; f32 supports only the first. A gemm whose results cannot leave the last from
/// registers has another, of the launcher's choice.
std::span<const Tile> cubin_tiles();

}  // namespace etna::gemm
