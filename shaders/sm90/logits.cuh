#pragma once
// Logits on their way to memory, and the state of their softmax: for each row of a tile the largest logit and the sum
// of exponentials relative to it, so that linear_cross_entropy need not read the logits for them. Both are of the
// rounded logits, which are what the gradient is computed from. The arithmetic hides behind the products of the other
// warpgroup.
#include "direct.cuh"

namespace hopper {

/// The largest of some numbers, and the sum of exponentials relative to it.
struct SoftmaxState {
  float largest, sum;
};
/// exp(x - largest), where a largest of -infinity counts as 0.
__device__ __forceinline__ float relative_exp(float x, float largest) {
  return exp2_fast((x - (largest == -INFINITY ? 0 : largest)) * 1.44269504088896f);
}
__device__ __forceinline__ void add_to(SoftmaxState& state, const float (&x)[8]) {
  float most = state.largest;
#pragma unroll
  for (int i = 0; i < 8; ++i) most = fmaxf(most, x[i]);
  state.sum *= relative_exp(state.largest, most);
#pragma unroll
  for (int i = 0; i < 8; ++i) state.sum += relative_exp(x[i], most);
  state.largest = most;
}
/// Combines the states of four neighboring lanes.
__device__ __forceinline__ void combine_four(SoftmaxState& state) {
  float most = fmaxf(state.largest, __shfl_xor_sync(~0u, state.largest, 1));
  most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
  state.sum *= relative_exp(state.largest, most);
  state.sum += __shfl_xor_sync(~0u, state.sum, 1);
  state.sum += __shfl_xor_sync(~0u, state.sum, 2);
  state.largest = most;
}

/// Stores 16-bit results as epilogue_direct() does, and to `aux`, f32 [m, tiles of columns, 3], the state of each row.
/// Columns from p.logits on add nothing. A NaN reaches the sum even though fmaxf() drops it.
template <bool F16, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_logits(const Parameters& p, float (&d)[BLOCKS][SUMS], std::uint32_t row,
                                                std::uint32_t column, const Tile& tile) {
  const std::uint32_t lane = threadIdx.x & 31;
  const bool last = column + SUMS * 2 > p.logits;
#pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t r = row + b * 64 + h * 8 + (lane >> 2), c = column + (lane & 3) * 8;
      const bool inside = r < p.m;
      std::uint16_t* y = static_cast<std::uint16_t*>(p.epilogue.y) + static_cast<std::size_t>(r) * p.epilogue.ldy + c;
      SoftmaxState state{-INFINITY, 0};
#pragma unroll
      for (int j = 0; j < SUMS / 16; ++j) {
        std::uint32_t words[4];
        float x[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = pack<F16>(d[b][j * 16 + i * 4 + h * 2], d[b][j * 16 + i * 4 + h * 2 + 1]);
          const float2 two = unpack<F16>(words[i]);
          x[i * 2] = two.x, x[i * 2 + 1] = two.y;
          if (last) {
            const std::uint32_t at = column + j * 32 + i * 8 + (lane & 3) * 2;
            if (at >= p.logits) x[i * 2] = -INFINITY;
            if (at + 1 >= p.logits) x[i * 2 + 1] = -INFINITY;
          }
        }
        add_to(state, x);
        transpose_of_four(words);
        if (inside && c + j * 32 < p.n)
          *reinterpret_cast<uint4*>(y + j * 32) = make_uint4(words[0], words[1], words[2], words[3]);
        asm volatile("" ::: "memory");
      }
      combine_four(state);
      if ((lane & 3) == 0 && inside) {
        float* to = static_cast<float*>(p.epilogue.aux) + (static_cast<std::size_t>(r) * p.tiles_n + tile.column) * 3;
        to[0] = state.largest, to[1] = state.sum;
      }
    }
  }
}

}  // namespace hopper
