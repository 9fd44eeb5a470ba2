#pragma once
// What the kernels of this folder share: their parameters (the host's side is tensor/product/cubin.cpp), the order in which a block
// takes tiles, and the way from accumulators to results.
#include "finish.cuh"
#include "hopper.cuh"

namespace hopper {

struct Parameters {
  TensorMap a, b;
  Finish finish;
  FinishKinds kinds;
  std::uint32_t m, n;
  std::uint32_t tiles_m, tiles_n, matrices, splits;
  std::uint32_t steps, steps_a_split;              ///< of k
  std::uint32_t a_matrix, b_matrix;                ///< 0 where one matrix serves the whole batch, else 1
  std::uint32_t group;                             ///< rows of tiles that are walked down before the next column
  std::uint32_t end;
};

/// One tile of the result, over one part of k.
struct Tile {
  std::uint32_t row, column;  ///< in tiles
  std::uint32_t matrix, split, first, steps;
};

/// Tiles are numbered so that those at work at one time share rows of a and columns of b in the L2 cache.
__device__ __forceinline__ Tile tile_at(const Parameters& p, std::uint32_t i) {
  Tile t;
  const std::uint32_t a_matrix = p.tiles_m * p.tiles_n, whole = i / a_matrix;
  std::uint32_t in = i - whole * a_matrix;
  t.split = whole / p.matrices;
  t.matrix = whole - t.split * p.matrices;
  const std::uint32_t a_group = p.group * p.tiles_n, group = in / a_group, top = group * p.group;
  const std::uint32_t rows = min(p.tiles_m - top, p.group);
  in -= group * a_group;
  t.column = in / rows;
  t.row = top + in - t.column * rows;
  t.first = t.split * p.steps_a_split;
  t.steps = min(p.steps - t.first, p.steps_a_split);
  return t;
}
__device__ __forceinline__ std::uint32_t tile_count(const Parameters& p) {
  return p.tiles_m * p.tiles_n * p.matrices * p.splits;
}

constexpr int kScratchBytes = 16 * 64 * 4;  ///< of shared memory, a warp

/// Stores a warp's 16 x 128 part of the result, whose accumulators are those of a warpgroup's product, through its scratch: so rows
/// leave in whole lines, and what is read beside them comes in whole lines.
__device__ __forceinline__ void finish_rows(const Parameters& p, const float* d, float* scratch, std::uint32_t row,
                                            std::uint32_t column, const Tile& tile) {
  const std::uint32_t lane = threadIdx.x & 31;
  const std::size_t above = (static_cast<std::size_t>(tile.split) * p.matrices + tile.matrix) * p.m;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::uint32_t r = h * 8 + (lane >> 2), c = (j * 8 + (lane & 3) * 2) ^ (r & 3) * 8;
        const float* pair = d + (half * 8 + j) * 4 + h * 2;
        *reinterpret_cast<float2*>(scratch + r * 64 + c) = make_float2(pair[0], pair[1]);
      }
    }
    __syncwarp();
#pragma unroll 2
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t r = i * 2 + (lane >> 4), c = (lane & 15) * 4, at = column + half * 64 + c;
      const float4 x = *reinterpret_cast<const float4*>(scratch + r * 64 + (c ^ (r & 3) * 8));
      float t[4] = {x.x, x.y, x.z, x.w};
      if (row + r < p.m && at < p.n) finish4(p.finish, p.kinds, t, above + row + r, at, p.n);
    }
  }
}

}  // namespace hopper
