#pragma once
// Attention of f16 and bf16 on warpgroup matrix units, after FlashAttention-3 (Shah et al. 2024). Persistent: a block
// stays on its multiprocessor and takes tile after tile of queries. One thread keeps the copy engine busy: queries of
// the next tile, keys and values through a ring of stages. Each of the other warpgroups owns 64 rows of queries. They
// take turns at the matrix units, so that the softmax of one hides behind the products of another; within a warpgroup,
// the scores of the next keys are multiplied beside the values of the last ones.
#include "hopper.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin.cpp.
struct AttentionParameters {
  TensorMap q, k, v;  ///< [batch, heads, rows, size]
  std::uint16_t* y;
  float* logsumexp;  ///< [batch, heads, queries]
  std::uint32_t batch, heads, heads_a_group, queries, keys;
  std::uint32_t value_size;              ///< of a row of y
  std::uint32_t y_batch, y_head, y_row;  ///< strides in elements
  float scale;                           ///< of scores, in units of log 2
  std::uint32_t tiles;                   ///< of queries, per head
};

/// The largest / the sum of the four threads that share a row of the sums.
__device__ __forceinline__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// 128-byte columns of `rows` rows each: how boxes of the copy engine lie.
template <int ROWS>
__device__ __forceinline__ std::uint64_t along(std::uint32_t block, int k16) {
  return operand<128>(block + k16 / 4 * ROWS * 128 + k16 % 4 * 32, 1024);
}
template <int ROWS>
__device__ __forceinline__ std::uint64_t across(std::uint32_t block, int k16) {
  return operand<128>(block + k16 * 2048, 1024, ROWS * 128);
}

/// Stores a warp's 16 rows, each thread's two times their factors, through the warp's scratch, so that whole lines are
/// written. @param to row 0 @param row the first of the 16, of `rows` rows with `size` elements
template <bool F16, int SIZE>
__device__ __forceinline__ void store_rows(std::uint16_t* to, std::uint32_t stride, std::uint32_t row,
                                           std::uint32_t rows, std::uint32_t size, const float (&x)[SIZE / 2],
                                           const float (&factors)[2], char* scratch) {
  const std::uint32_t lane = threadIdx.x & 31;
  constexpr std::uint32_t pitch = SIZE * 2, chunks = SIZE / 8;
  // 16 bytes of a row are moved by its number, so that banks differ.
  const auto at = [&](std::uint32_t r, std::uint32_t chunk) {
    return scratch + r * pitch + (chunk ^ (SIZE % 64 == 0 ? r & 7 : 0)) * 16;
  };
  __syncwarp();
#pragma unroll
  for (int j = 0; j < SIZE / 8; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<std::uint32_t*>(at(h * 8 + (lane >> 2), j) + (lane & 3) * 4) =
          pack<F16>(x[j * 4 + h * 2] * factors[h], x[j * 4 + h * 2 + 1] * factors[h]);
  }
  __syncwarp();
#pragma unroll 4
  for (std::uint32_t i = lane; i < 16 * chunks; i += 32) {
    const std::uint32_t r = i / chunks, c = i % chunks;
    if (row + r < rows && c * 8 < size)
      *reinterpret_cast<uint4*>(to + static_cast<std::size_t>(row + r) * stride + c * 8) =
          *reinterpret_cast<const uint4*>(at(r, c));
  }
}

/// SIZE, VALUES: head sizes of keys and values, with zeros up to here. Each of GROUPS warpgroups owns 64 queries.
template <bool F16, bool CAUSAL, int SIZE, int VALUES, int GROUPS, int KEYS, int STAGES>
struct AttentionForward {
  static constexpr int kRows = 64 * GROUPS, kThreads = 128 * (GROUPS + 1);
  static constexpr int kColumns = (SIZE + 63) / 64, kValueColumns = (VALUES + 63) / 64;  ///< of 128 bytes
  static constexpr int kQueryBytes = 64 * 128 * kColumns;                                ///< of a warpgroup
  static constexpr int kKeyBytes = KEYS * 128 * kColumns, kValueBytes = KEYS * 128 * kValueColumns;
  static constexpr int kResultBytes = 64 * 128 * kValueColumns;
  /// The result is staged where the queries were if there is no other room.
  static constexpr bool kStageApart =
      (kQueryBytes + kResultBytes) * GROUPS + STAGES * (kKeyBytes + kValueBytes) < 231000;
  static constexpr int kKeysAt = GROUPS * kQueryBytes, kValuesAt = kKeysAt + STAGES * kKeyBytes,
                       kResultsAt = kStageApart ? kValuesAt + STAGES * kValueBytes : 0,
                       kBarriers = kValuesAt + STAGES * kValueBytes + (kStageApart ? GROUPS * kResultBytes : 0);
  static constexpr int kSharedBytes = kBarriers + (2 * GROUPS + 4 * STAGES) * 8;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");
  static_assert(kStageApart || kResultBytes <= kQueryBytes, "results take the place of queries");
  /// Registers of a thread, all told 65,536.
  static constexpr int kProducerRegisters = GROUPS == 3 ? 32 : 24, kConsumerRegisters = GROUPS == 3 ? 160 : 240;

  struct Tile {
    std::uint32_t first, head, batch, blocks;  ///< first query; blocks of keys that any of its rows attends to
  };

  struct Barriers {
    std::uint32_t at;
    __device__ std::uint32_t queries_full(int group) const { return at + group * 8; }
    __device__ std::uint32_t queries_empty(int group) const { return at + (GROUPS + group) * 8; }
    __device__ std::uint32_t keys_full(std::uint32_t stage) const { return at + (2 * GROUPS + stage) * 8; }
    __device__ std::uint32_t keys_empty(std::uint32_t stage) const { return at + (2 * GROUPS + STAGES + stage) * 8; }
    __device__ std::uint32_t values_full(std::uint32_t stage) const {
      return at + (2 * GROUPS + 2 * STAGES + stage) * 8;
    }
    __device__ std::uint32_t values_empty(std::uint32_t stage) const {
      return at + (2 * GROUPS + 3 * STAGES + stage) * 8;
    }
  };

  static __device__ __forceinline__ std::uint32_t blocks_of(const AttentionParameters& p, std::uint32_t end) {
    const std::uint32_t keys = CAUSAL ? min(p.keys, end) : p.keys;
    return (keys + KEYS - 1) / KEYS;
  }
  /// The number of this block's tile in a turn. Every second turn gives tiles out backwards, so that blocks get as many
  /// keys where each tile has fewer of them than the one before.
  static __device__ __forceinline__ std::uint32_t number_of(std::uint32_t turn) {
    return turn * gridDim.x + (CAUSAL && turn & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  }
  /// Tiles with the most keys come first, of all heads; without a triangle, tiles of a head follow each other.
  static __device__ __forceinline__ Tile tile_at(const AttentionParameters& p, std::uint32_t i) {
    const std::uint32_t all = p.heads * p.batch;
    std::uint32_t row, head;
    if constexpr (CAUSAL) {
      row = i / all, head = i - row * all;
      row = p.tiles - 1 - row;
    } else {
      head = i / p.tiles, row = i - head * p.tiles;
    }
    Tile t;
    t.first = row * kRows;
    t.batch = head / p.heads, t.head = head - t.batch * p.heads;
    t.blocks = blocks_of(p, min(t.first + kRows, p.queries));
    return t;
  }
  static __device__ __forceinline__ std::uint32_t tile_count(const AttentionParameters& p) {
    return p.tiles * p.heads * p.batch;
  }

  static __device__ __forceinline__ void produce(const AttentionParameters& p, std::uint32_t shared, Barriers bars) {
    std::uint32_t it = 0;
    for (std::uint32_t turn = 0; number_of(turn) < tile_count(p); ++turn) {
      const Tile t = tile_at(p, number_of(turn));
      const int group = t.head / p.heads_a_group;
      for (int g = 0; g < GROUPS; ++g) {
        if (turn > 0) barrier_wait(bars.queries_empty(g), (turn - 1) & 1);
        barrier_expect(bars.queries_full(g), kQueryBytes);
        for (int c = 0; c < kColumns; ++c)
          copy_box(shared + g * kQueryBytes + c * 64 * 128, p.q, c * 64, t.first + g * 64, t.head, t.batch,
                   bars.queries_full(g));
      }
      // Values follow one block behind the keys, as they are needed.
      for (std::uint32_t b = 0; b <= t.blocks; ++b) {
        if (b < t.blocks) {
          const std::uint32_t n = it + b, stage = n % STAGES;
          if (n >= STAGES) barrier_wait(bars.keys_empty(stage), (n / STAGES - 1) & 1);
          barrier_expect(bars.keys_full(stage), kKeyBytes);
          for (int c = 0; c < kColumns; ++c)
            copy_box(shared + kKeysAt + stage * kKeyBytes + c * KEYS * 128, p.k, c * 64, (t.blocks - 1 - b) * KEYS,
                     group, t.batch, bars.keys_full(stage));
        }
        if (b > 0) {
          const std::uint32_t n = it + b - 1, stage = n % STAGES;
          if (n >= STAGES) barrier_wait(bars.values_empty(stage), (n / STAGES - 1) & 1);
          barrier_expect(bars.values_full(stage), kValueBytes);
          for (int c = 0; c < kValueColumns; ++c)
            copy_box(shared + kValuesAt + stage * kValueBytes + c * KEYS * 128, p.v, c * 64, (t.blocks - b) * KEYS,
                     group, t.batch, bars.values_full(stage));
        }
      }
      it += t.blocks;
    }
  }

  /// Warpgroups in a circle: each waits for the one before it.
  static __device__ __forceinline__ void wait_for_turn(int group) { sync_threads(1 + group, 256); }
  static __device__ __forceinline__ void give_turn(int group) { arrive_threads(1 + (group + 1) % GROUPS, 256); }

  struct Softmax {
    float largest[2], sum[2];  ///< of two rows; the sum is of this thread's columns
  };

  /// Scores to weights. @param row the first of this thread's two rows @param key of the block's first column
  /// @return the factors by which what was summed before shrinks
  template <bool MASKED>
  static __device__ __forceinline__ float2 weights(float (&s)[KEYS / 2], Softmax& soft, const AttentionParameters& p,
                                                   std::uint32_t row, std::uint32_t key) {
    if constexpr (MASKED) {
#pragma unroll
      for (int i = 0; i < KEYS / 2; ++i) {
        const std::uint32_t column = key + i / 4 * 8 + (threadIdx.x & 3) * 2 + (i & 1);
        if (column >= p.keys || (CAUSAL && column > row + (i >> 1 & 1) * 8)) s[i] = -INFINITY;
      }
    }
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = soft.largest[h];
#pragma unroll
      for (int i = h * 2; i < KEYS / 2; i += 4) most = fmaxf(most, fmaxf(s[i], s[i + 1]));
      most = largest_of_row(most);
      const float shift = most == -INFINITY ? 0 : most * p.scale;
      shrink[h] = exp2_fast(soft.largest[h] * p.scale - shift);
      float sum = 0;
#pragma unroll
      for (int i = h * 2; i < KEYS / 2; i += 4) {
        s[i] = exp2_fast(s[i] * p.scale - shift), s[i + 1] = exp2_fast(s[i + 1] * p.scale - shift);
        sum += s[i] + s[i + 1];
      }
      soft.largest[h] = most;
      soft.sum[h] = soft.sum[h] * shrink[h] + sum;
    }
    return make_float2(shrink[0], shrink[1]);
  }

  static __device__ __forceinline__ void to_operands(const float (&s)[KEYS / 2], std::uint32_t (&a)[KEYS / 16][4]) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[k][i] = pack<F16>(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
    }
  }

  static __device__ __forceinline__ void scores(float (&s)[KEYS / 2], std::uint32_t q, std::uint32_t k) {
#pragma unroll
    for (int i = 0; i < SIZE / 16; ++i) wgmma<F16, false, false>(s, along<64>(q, i), along<KEYS>(k, i), i > 0);
  }
  static __device__ __forceinline__ void add_values(float (&o)[VALUES / 2], const std::uint32_t (&a)[KEYS / 16][4],
                                                    std::uint32_t v) {
#pragma unroll
    for (int i = 0; i < KEYS / 16; ++i) wgmma<F16, true>(o, a[i], across<KEYS>(v, i), true);
  }

  static __device__ __forceinline__ void consume(const AttentionParameters& p, char* memory, std::uint32_t shared,
                                                 Barriers bars) {
    // The same in all lanes, as the compiler can see: products may not be in branches that diverge.
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 7), 0) - 1;
    const std::uint32_t in_group = threadIdx.x & 127, warp = in_group >> 5, lane = threadIdx.x & 31;
    const bool speaker = in_group == 0;
    const std::uint32_t q = shared + group * kQueryBytes;
    if (GROUPS > 1 && group == GROUPS - 1) give_turn(group);
    std::uint32_t it = 0;
    for (std::uint32_t turn = 0; number_of(turn) < tile_count(p); ++turn) {
      const Tile t = tile_at(p, number_of(turn));
      const std::uint32_t first = t.first + group * 64, row = first + warp * 16 + (lane >> 2);
      const std::uint32_t own = first >= p.queries ? 0 : blocks_of(p, min(first + 64, p.queries));
      // Blocks of keys that only later rows attend to.
      for (std::uint32_t b = t.blocks; b > own; --b, ++it) {
        const std::uint32_t stage = it % STAGES, parity = it / STAGES & 1;
        barrier_wait(bars.keys_full(stage), parity);
        if (speaker) barrier_arrive(bars.keys_empty(stage));
        barrier_wait(bars.values_full(stage), parity);
        if (speaker) barrier_arrive(bars.values_empty(stage));
        if (b > 1) wait_for_turn(group), give_turn(group);
      }
      barrier_wait(bars.queries_full(group), turn & 1);
      if (own == 0) {
        if (speaker) barrier_arrive(bars.queries_empty(group));
        continue;
      }
      std::uint32_t block = own - 1;
      float s[KEYS / 2], o[VALUES / 2];
      std::uint32_t a[KEYS / 16][4];
      Softmax soft{{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
      for (int j = 0; j < VALUES / 2; ++j) o[j] = 0;

      barrier_wait(bars.keys_full(it % STAGES), it / STAGES & 1);
      product_fence();
      scores(s, q, shared + kKeysAt + it % STAGES * kKeyBytes);
      product_commit();
      product_wait<0>();
      if (speaker) barrier_arrive(bars.keys_empty(it % STAGES));
      weights<true>(s, soft, p, row, block * KEYS);
      to_operands(s, a);

      while (block > 0) {
        const std::uint32_t before = it % STAGES, parity_before = it / STAGES & 1;
        ++it, --block;
        const std::uint32_t stage = it % STAGES;
        barrier_wait(bars.keys_full(stage), it / STAGES & 1);
        wait_for_turn(group);
        product_fence();
        scores(s, q, shared + kKeysAt + stage * kKeyBytes);
        product_commit();
        barrier_wait(bars.values_full(before), parity_before);
        product_fence();
        add_values(o, a, shared + kValuesAt + before * kValueBytes);
        product_commit();
        give_turn(group);
        product_wait<1>();
        if (speaker) barrier_arrive(bars.keys_empty(stage));
        const float2 shrink = weights<false>(s, soft, p, row, block * KEYS);
        product_wait<0>();
        if (speaker) barrier_arrive(bars.values_empty(before));
#pragma unroll
        for (int j = 0; j < VALUES / 2; ++j) o[j] *= j & 2 ? shrink.y : shrink.x;
        to_operands(s, a);
      }

      if (kStageApart && speaker) barrier_arrive(bars.queries_empty(group));
      barrier_wait(bars.values_full(it % STAGES), it / STAGES & 1);
      product_fence();
      add_values(o, a, shared + kValuesAt + it % STAGES * kValueBytes);
      product_commit();
      float inverse[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float sum = sum_of_row(soft.sum[h]);
        inverse[h] = sum == 0 ? 0 : 1 / sum;
        if ((lane & 3) == 0 && row + h * 8 < p.queries) {
          const std::size_t at = (static_cast<std::size_t>(t.batch) * p.heads + t.head) * p.queries + row + h * 8;
          p.logsumexp[at] = (soft.largest[h] * p.scale + __log2f(sum)) * 0.693147180559945f;
        }
      }
      product_wait<0>();
      if (speaker) barrier_arrive(bars.values_empty(it % STAGES));
      ++it;
      if constexpr (!kStageApart) sync_threads(4 + group, 128);
      store_rows<F16, VALUES>(
          p.y + static_cast<std::size_t>(t.batch) * p.y_batch + static_cast<std::size_t>(t.head) * p.y_head, p.y_row,
          first + warp * 16, p.queries, p.value_size, o, inverse,
          memory + kResultsAt + group * kResultBytes + warp * 16 * VALUES * 2);
      if constexpr (!kStageApart) {
        fence_async();
        sync_threads(4 + group, 128);
        if (speaker) barrier_arrive(bars.queries_empty(group));
      }
    }
  }

  static __device__ __forceinline__ void run(const AttentionParameters& p, char* memory) {
    const std::uint32_t shared = shared_address(memory);
    const Barriers bars{shared + kBarriers};
    if (threadIdx.x == 0) {
      for (int g = 0; g < GROUPS; ++g) barrier_init(bars.queries_full(g), 1), barrier_init(bars.queries_empty(g), 1);
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(bars.keys_full(s), 1), barrier_init(bars.values_full(s), 1);
        barrier_init(bars.keys_empty(s), GROUPS), barrier_init(bars.values_empty(s), GROUPS);
      }
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      give_registers<kProducerRegisters>();
      if (threadIdx.x == 0) produce(p, shared, bars);
    } else {
      take_registers<kConsumerRegisters>();
      consume(p, memory, shared, bars);
    }
  }
};

}  // namespace hopper
