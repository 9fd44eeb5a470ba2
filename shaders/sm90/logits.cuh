#pragma once
// Logits on their way to memory, and the state of their softmax: for each row of a tile the largest logit and the sum
// of exponentials relative to it, so that linear_cross_entropy need not read the logits for them. Both are of the
// rounded logits, which are what the gradient is computed from. The arithmetic hides behind the products of the other
// warpgroup.
#include "direct.cuh"

namespace hopper {

/// Stores 16-bit results as epilogue_direct() does, and to `aux`, f32 [m, tiles of columns, 3], the state of each row.
/// Columns from p.logits on add nothing. A NaN reaches the sum even though maxima drop it. Each row's results are on
/// their way before its maximum is looked for, and one maximum serves all of its exponentials.
template <bool F16, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_logits(const Parameters& p, float (&d)[BLOCKS][SUMS], std::uint32_t row,
                                                std::uint32_t column, const Tile& tile) {
  constexpr int kPairs = SUMS / 4;
  constexpr std::uint32_t kMinusInfinity = F16 ? 0xFC00 : 0xFF80;
  const std::uint32_t lane = threadIdx.x & 31;
  const bool last = column + SUMS * 2 > p.logits;
#pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t r = row + b * 64 + h * 8 + (lane >> 2), c = column + (lane & 3) * 8;
      const bool inside = r < p.m;
      std::uint16_t* y = static_cast<std::uint16_t*>(p.epilogue.y) + static_cast<std::size_t>(r) * p.epilogue.ldy + c;
      std::uint32_t x[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) x[i] = pack<F16>(d[b][i * 4 + h * 2], d[b][i * 4 + h * 2 + 1]);
#pragma unroll
      for (int j = 0; j < kPairs; j += 4) {
        std::uint32_t words[4] = {x[j], x[j + 1], x[j + 2], x[j + 3]};
        transpose_of_four(words);
        if (inside && c + j * 8 < p.n)
          *reinterpret_cast<uint4*>(y + j * 8) = make_uint4(words[0], words[1], words[2], words[3]);
      }
      if (last) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const std::uint32_t at = column + i * 8 + (lane & 3) * 2;
          if (at >= p.logits) x[i] = (x[i] & 0xFFFF0000) | kMinusInfinity;
          if (at + 1 >= p.logits) x[i] = (x[i] & 0xFFFF) | kMinusInfinity << 16;
        }
      }
      std::uint32_t larger = x[0];
#pragma unroll
      for (int i = 1; i < kPairs; ++i) larger = larger_of_pairs<F16>(larger, x[i]);
      const float2 two = unpack<F16>(larger);
      float most = fmaxf(fmaxf(two.x, two.y), -INFINITY);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float base = most == -INFINITY ? 0 : most;
      float sums[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float2 pair = unpack<F16>(x[i]);
        sums[i % 2 * 2] += exp2_fast((pair.x - base) * 1.44269504088896f);
        sums[i % 2 * 2 + 1] += exp2_fast((pair.y - base) * 1.44269504088896f);
      }
      float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if ((lane & 3) == 0 && inside) {
        float* to = static_cast<float*>(p.epilogue.aux) + (static_cast<std::size_t>(r) * p.tiles_n + tile.column) * 3;
        to[0] = most, to[1] = sum;
      }
      asm volatile("" ::: "memory");
    }
  }
}

}  // namespace hopper
