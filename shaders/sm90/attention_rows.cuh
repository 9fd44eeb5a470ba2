#pragma once
// The small kernels before and behind attention_backward.cuh: what is known of each row, which tiles meet, and the
// results of the sums of dq.
#include "attention_tiles.cuh"

namespace hopper {

/// Before: Σ y · dy, logsumexp in units of log 2, and turns set to 0. Rows include those of the last tile that are not
/// there.
struct AttentionRowParameters {
  const std::uint16_t *y, *dy;
  const float* logsumexp;
  float2* rows;
  std::uint32_t* turns;
  std::uint32_t heads, queries, size, rows_a_head, all, turn_count;
  std::uint32_t y_strides[3], dy_strides[3];  ///< batch, head, row
  // What follows is for general kernels, as in AttentionGradientParameters.
  const int2* documents;
  std::uint32_t* ranges;
  std::uint32_t batch, keys, causal, window;
  std::uint32_t tiles, tile_rows, key_tiles, tile_keys;  ///< tile_rows, tile_keys: rows of a tile
  AttentionMask mask;                                    ///< without spans: none
};

/// Which tiles meet: for each tile of keys, the first tile of queries and the one behind the last; then, for each tile
/// of queries, the last tile of keys. Blocks wait for each other by these numbers, so both must say the same: the first
/// and the last tile of keys of a tile of queries never decrease here, whatever documents say, and there is one at
/// least. Under a mask, whose rows need not be in such an order, a tile's first one is the least of all later ones'.
__device__ __forceinline__ void attention_ranges(const AttentionRowParameters& p, std::uint32_t thread,
                                                 std::uint32_t all_threads) {
  const std::uint32_t each = p.key_tiles + p.tiles;
  const int keys = static_cast<int>(p.keys);
  for (std::uint32_t i = thread; i < p.batch * each; i += all_threads) {
    const std::uint32_t batch = i / each, n = i - batch * each;
    std::uint32_t* ranges = p.ranges + static_cast<std::size_t>(batch) * (each + p.key_tiles);
    const std::uint32_t count = n < p.key_tiles ? p.tiles : n - p.key_tiles + 1;
    std::uint32_t low = 0, high = 0, first = 0, past = 0;
    for (std::uint32_t t = 0; t < count; ++t) {
      const std::uint32_t row = t * p.tile_rows, row_end = row + p.tile_rows;
      const Span s = p.mask.spans != nullptr
                         ? span_of(p.mask, batch, row, min(row_end, p.queries))
                         : Span{keys_of(p, batch, row).from, keys_of(p, batch, row_end - 1).end};
      const int from = min(keys - 1, max(0, s.from)), last = min(keys, max(1, s.end)) - 1;
      low = max(p.mask.spans != nullptr ? 0 : low, static_cast<std::uint32_t>(from) / p.tile_keys);
      high = max(high, static_cast<std::uint32_t>(last) / p.tile_keys);
      first += high < n ? 1 : 0;
      if (min(low, high) <= n) past = t + 1;
    }
    if (n < p.key_tiles)
      ranges[2 * n] = first, ranges[2 * n + 1] = past;
    else
      ranges[p.key_tiles + n] = high;
  }
}

/// Σ of the products of eight elements.
template <bool F16>
__device__ __forceinline__ float product_of_eight(const std::uint16_t* x, const std::uint16_t* y) {
  const uint4 a = *reinterpret_cast<const uint4*>(x), b = *reinterpret_cast<const uint4*>(y);
  const std::uint32_t as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 u = unpack<F16>(as[i]), v = unpack<F16>(bs[i]);
    sum += u.x * v.x + u.y * v.y;
  }
  return sum;
}

/// What backward is told of a row. Without a row, or where a row attends to nothing, weights are 0.
__device__ __forceinline__ float2 row_of(float logsumexp, float sum) {
  return make_float2((logsumexp == -INFINITY ? INFINITY : logsumexp) * 1.44269504088896f, sum);
}

template <bool F16, bool GENERAL = false>
__device__ __forceinline__ void attention_rows(const AttentionRowParameters& p) {
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, all_threads = gridDim.x * blockDim.x;
  if constexpr (GENERAL) attention_ranges(p, thread, all_threads);
  for (std::uint32_t i = thread; i < p.turn_count; i += all_threads) p.turns[i] = 0;
  // Eight lanes a row, 16 bytes each at a time.
  for (std::uint32_t r = thread / 8; r < p.all; r += all_threads / 8) {
    const std::uint32_t head = r / p.rows_a_head, row = r - head * p.rows_a_head, batch = head / p.heads,
                        of_batch = head - batch * p.heads;
    float sum = 0;
    if (row < p.queries) {
      auto at = [&](const std::uint16_t* x, const std::uint32_t(&strides)[3]) {
        return x + static_cast<std::size_t>(batch) * strides[0] + static_cast<std::size_t>(of_batch) * strides[1] +
               static_cast<std::size_t>(row) * strides[2];
      };
      const std::uint16_t *y = at(p.y, p.y_strides), *dy = at(p.dy, p.dy_strides);
      for (std::uint32_t c = (threadIdx.x & 7) * 8; c < p.size; c += 64) sum += product_of_eight<F16>(y + c, dy + c);
    }
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if ((threadIdx.x & 7) == 0) {
      const bool there = row < p.queries;
      p.rows[r] =
          row_of(there ? p.logsumexp[static_cast<std::size_t>(head) * p.queries + row] : INFINITY, there ? sum : 0);
    }
  }
}

/// Behind: sums of dq to results. A block a block of 64 x 64.
struct AttentionSumParameters {
  const float* sums;
  std::uint16_t* dq;
  std::uint32_t heads, queries, size, blocks_a_head, columns;
  std::uint32_t strides[3];  ///< batch, head, row
  float scale;
};

template <bool F16>
__device__ __forceinline__ void attention_sums(const AttentionSumParameters& p) {
  const std::uint32_t head = blockIdx.x / p.blocks_a_head, block = blockIdx.x - head * p.blocks_a_head;
  const std::uint32_t batch = head / p.heads, of_batch = head - batch * p.heads, warp = threadIdx.x >> 5,
                      lane = threadIdx.x & 31;
  const std::uint32_t row = block / p.columns * 64 + warp * 16 + (lane >> 2), column = block % p.columns * 64;
  const float4* sums =
      reinterpret_cast<const float4*>(p.sums) + static_cast<std::size_t>(blockIdx.x) * 1024 + threadIdx.x;
  float4 x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = sums[i * 128];
  std::uint16_t* dq =
      p.dq + static_cast<std::size_t>(batch) * p.strides[0] + static_cast<std::size_t>(of_batch) * p.strides[1];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4& sum = x[part * 4 + i];
        words[i] =
            half == 0 ? pack<F16>(sum.x * p.scale, sum.y * p.scale) : pack<F16>(sum.z * p.scale, sum.w * p.scale);
      }
      transpose_of_four(words);
      const std::uint32_t r = row + half * 8, c = column + (part * 4 + (lane & 3)) * 8;
      if (r < p.queries && c < p.size)
        *reinterpret_cast<uint4*>(dq + static_cast<std::size_t>(r) * p.strides[2] + c) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

}  // namespace hopper
