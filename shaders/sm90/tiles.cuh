#pragma once
// Shared by the kernels of this folder: their parameters (the host's side is tensor/ops/matmul/gemm/cubin.cpp), the
// order in which blocks take tiles, and the path from accumulators to results.
#include "epilogue.cuh"
#include "hopper.cuh"

namespace hopper {

struct Parameters {
  TensorMap a, b;
  Epilogue epilogue;
  EpilogueKinds kinds;
  std::uint32_t m, n;
  std::uint32_t tiles_m, tiles_n, matrices, splits;
  std::uint32_t steps, steps_a_split;  ///< of k
  std::uint32_t a_matrix, b_matrix;    ///< 0 if one matrix serves the whole batch, else 1
  std::uint32_t group;                 ///< rows of tiles per band; a band is traversed column by column
  std::uint32_t logits;                ///< columns of y that are logits, those behind are padding; 0: it is not logits
};

/// One tile of the result, over one chunk of k.
struct Tile {
  std::uint32_t row, column;  ///< in tiles
  std::uint32_t matrix, split, first, steps;
};

/// Tiles are ordered so that those in flight share rows of a and columns of b in the L2 cache.
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

constexpr int kScratchBytes = 16 * 64 * 4;  ///< shared memory per warp

/// Moves a warp's 16 x 64 accumulators to the warp's scratch, so that rows are stored, and the epilogue's operands
/// loaded, in whole lines.
__device__ __forceinline__ void stage(const float* d, float* scratch) {
  const std::uint32_t lane = threadIdx.x & 31;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t r = h * 8 + (lane >> 2), c = (j * 8 + (lane & 3) * 2) ^ (r & 3) * 8;
      *reinterpret_cast<float2*>(scratch + r * 64 + c) = make_float2(d[j * 4 + h * 2], d[j * 4 + h * 2 + 1]);
    }
  }
}

/// Stores the 16 x 64 results in a warp's scratch, ROWS per lane at a time.
template <int ROWS, int WIDTH, std::uint32_t ACTIVATION, bool DERIVATIVE, bool HAS_AUX>
__device__ __forceinline__ void epilogue_block(const Parameters& p, const float* scratch, std::size_t above,
                                               std::uint32_t row, std::uint32_t at) {
  const std::uint32_t lane = threadIdx.x & 31, upper = lane >> 4, c = (lane & 15) * 4;
  float bias[4] = {}, scale = p.epilogue.scale;
  if (p.kinds.flags & kScaleBy) scale *= *p.epilogue.scale_by;
  if (p.kinds.flags & kBias) {
    float v[1][4];
    load_rows<WIDTH>(v, p.epilogue.bias, at, 0, 1, p.kinds.bias);
#pragma unroll
    for (int i = 0; i < 4; ++i) bias[i] = v[0][i];
  }
#pragma unroll 1
  for (std::uint32_t i = 0; i < 16; i += 2 * ROWS) {
    float t[ROWS][4];
#pragma unroll
    for (std::uint32_t u = 0; u < ROWS; ++u) {
      const std::uint32_t r = i + u * 2 + upper;
      const float4 x = *reinterpret_cast<const float4*>(scratch + r * 64 + (c ^ (r & 3) * 8));
      t[u][0] = x.x, t[u][1] = x.y, t[u][2] = x.z, t[u][3] = x.w;
    }
    const int left = static_cast<int>(p.m) - static_cast<int>(row + i + upper);
    epilogue_rows<WIDTH, ACTIVATION, DERIVATIVE, HAS_AUX>(p.epilogue, p.kinds, t, bias, scale, above + row + i + upper,
                                                          at, (left + 1) / 2);
  }
}

__device__ __forceinline__ void epilogue_edge(const Parameters& p, const float* scratch, std::size_t above,
                                              std::uint32_t row, std::uint32_t at) {
  const std::uint32_t lane = threadIdx.x & 31, c = (lane & 15) * 4;
#pragma unroll 1
  for (std::uint32_t r = lane >> 4; r < 16 && row + r < p.m; r += 2) {
    const float4 x = *reinterpret_cast<const float4*>(scratch + r * 64 + (c ^ (r & 3) * 8));
    float t[4] = {x.x, x.y, x.z, x.w};
    apply_epilogue_to_some(p.epilogue, p.kinds, t, above + row + r, at, static_cast<int>(min(4u, p.n - at)));
  }
}

/// Stores the content of a warp's scratch, from `row` and `column` on.
template <int ROWS>
__device__ __forceinline__ void epilogue_staged(const Parameters& p, const float* scratch, const Tile& tile,
                                                std::uint32_t row, std::uint32_t column) {
  const std::size_t above = (static_cast<std::size_t>(tile.split) * p.matrices + tile.matrix) * p.m;
  const std::uint32_t at = column + (threadIdx.x & 15) * 4, flags = p.kinds.flags, activation = flags >> 6;
  if (at >= p.n) return;
  const bool plain = (flags & (kPreactivation | kDerivative | kResidual)) == 0 && activation == 0;
  if (at + 4 > p.n || !(p.kinds.width >= 4 || (p.kinds.width == 2 && plain)))
    return epilogue_edge(p, scratch, above, row, at);
  if (p.kinds.width == 2) return epilogue_block<ROWS / 2, 2, 0, false, false>(p, scratch, above, row, at);
  if (plain) return epilogue_block<ROWS, 4, 0, false, false>(p, scratch, above, row, at);
  if (flags & kDerivative) {
    switch (activation) {
#define ETNA_ACTIVATION(number, ...) \
  case number:                       \
    return epilogue_block<ROWS, 4, number, true, true>(p, scratch, above, row, at);
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION
    }
  }
  switch (activation) {
#define ETNA_ACTIVATION(number, ...) \
  case number:                       \
    return epilogue_block<ROWS, 4, number, false, true>(p, scratch, above, row, at);
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION
    default:
      return epilogue_block<ROWS, 4, 0, false, true>(p, scratch, above, row, at);
  }
}

/// Stores a warp's share of BLOCKS results of 64 x 128 (or 64 x 64), stacked from `row` on: 16 rows of each. The
/// epilogue's code exists once for all of them, so that it fits the instruction cache; ROWS per lane is as many as fit
/// the registers.
template <int ROWS, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_tile(const Parameters& p, const float (&d)[BLOCKS][SUMS], float* scratch,
                                              std::uint32_t row, std::uint32_t column, const Tile& tile) {
  constexpr int kHalves = SUMS / 32;  ///< of 64 columns
#pragma unroll 1
  for (std::uint32_t part = 0; part < BLOCKS * kHalves; ++part) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BLOCKS * kHalves; ++i) {
      if (part == i) stage(d[i / kHalves] + i % kHalves * 32, scratch);
    }
    __syncwarp();
    epilogue_staged<ROWS>(p, scratch, tile, row + part / kHalves * 64, column + part % kHalves * 64);
  }
}

}  // namespace hopper
