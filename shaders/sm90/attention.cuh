#pragma once
// Attention of f16 and bf16 on warpgroup matrix units, after FlashAttention-3 (Shah et al. 2024). Persistent: a block
// stays on its multiprocessor and takes tile after tile of queries. One thread keeps the copy engine busy: queries of
// the next tile, keys and values through a ring of stages. Each of the other warpgroups owns 64 rows of queries. They
// take turns at the matrix units, so that the softmax of one hides behind the products of another; within a warpgroup,
// the scores of the next keys are multiplied beside the values of the last ones.
//
// Keys and values may lie in a paged cache (PagedAttentionParameters): a table says where blocks of 64 positions are.
// Rows of a tile are then heads of queries that share their keys, a query's side by side. Keys of a sequence may be
// divided over blocks, whose results another kernel merges.
#include "attention_tiles.cuh"

namespace hopper {

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
/// written. @param to (row) is where that row begins @param row the first of the 16, of `rows` rows of `size` elements
template <bool F16, int SIZE, typename To>
__device__ __forceinline__ void store_rows(const To& to, std::uint32_t row, std::uint32_t rows, std::uint32_t size,
                                           const float (&x)[SIZE / 2], const float (&factors)[2], char* scratch) {
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
      *reinterpret_cast<uint4*>(to(row + r) + c * 8) = *reinterpret_cast<const uint4*>(at(r, c));
  }
}

/// SIZE, VALUES: head sizes of keys and values, with zeros up to here. Each of GROUPS warpgroups owns 64 queries.
/// CAUSAL: always with a paged cache, and with general parameters, which tell of the triangle or a mask.
template <bool F16, bool CAUSAL, int SIZE, int VALUES, int GROUPS, int KEYS, int STAGES,
          typename Parameters = AttentionParameters>
struct AttentionForward : AttentionTiles<CAUSAL, 64 * GROUPS, KEYS, Parameters> {
  using Tiles = AttentionTiles<CAUSAL, 64 * GROUPS, KEYS, Parameters>;
  using Tiles::kPaged, Tiles::kGeneral, Tiles::kMasked, Tiles::number_of, Tiles::tile_at, Tiles::tile_count,
      Tiles::chunks_of, Tiles::blocks_of, Tiles::keys_of_rows, Tiles::last_key;
  using typename Tiles::Tile;
  static constexpr int kBoxes = KEYS / kCacheBlock;
  static constexpr bool kRanged = kPaged || kGeneral;  ///< whether keys have a first one that a row attends to
  static constexpr float kLog2 = 0.693147180559945f;
  static constexpr int kRows = 64 * GROUPS, kThreads = 128 * (GROUPS + 1);
  static constexpr int kColumns = (SIZE + 63) / 64, kValueColumns = (VALUES + 63) / 64;  ///< of 128 bytes
  static constexpr int kQueryBytes = 64 * 128 * kColumns;                                ///< of a warpgroup
  static constexpr int kKeyBytes = KEYS * 128 * kColumns, kValueBytes = KEYS * 128 * kValueColumns;
  static constexpr int kResultBytes = 64 * 128 * kValueColumns;
  /// The result is staged where the queries were if there is no other room.
  static constexpr bool kStageApart =
      (kQueryBytes + kResultBytes) * GROUPS + STAGES * (kKeyBytes + kValueBytes) < 231000;
  static constexpr int kResultPitch = kStageApart ? kResultBytes : kQueryBytes;
  static constexpr int kKeysAt = GROUPS * kQueryBytes, kValuesAt = kKeysAt + STAGES * kKeyBytes,
                       kResultsAt = kStageApart ? kValuesAt + STAGES * kValueBytes : 0,
                       kBarriers = kValuesAt + STAGES * kValueBytes + (kStageApart ? GROUPS * kResultBytes : 0);
  static constexpr int kMissingAt = kBarriers + (2 * GROUPS + 4 * STAGES) * 8, kSharedBytes = kMissingAt + 4 * STAGES;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");
  static_assert(kStageApart || kResultBytes <= kQueryBytes, "results take the place of queries");
  /// Registers of a thread, all told 65,536.
  static constexpr int kProducerRegisters = GROUPS == 3 ? 32 : 24, kConsumerRegisters = GROUPS == 3 ? 160 : 240;

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

  /// Where the boxes of a block of keys are: its first key, or the numbers of the cache's blocks.
  struct Place {
    int boxes[kPaged ? kBoxes : 1];
    std::uint32_t missing = 0;  ///< a bit for each box that no block of the cache has; the copy engine gives zeros
  };
  static __device__ __forceinline__ Place place_of(const Parameters& p, const Tile& t, std::uint32_t block) {
    Place place;
    if constexpr (kPaged) {
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        const int key = t.from + static_cast<int>(block) * KEYS + i * kCacheBlock;
        place.boxes[i] = key < t.end ? p.table[t.batch * p.table_width + key / kCacheBlock] : -1;
        place.missing |= static_cast<std::uint32_t>(place.boxes[i]) < p.cache_blocks ? 0 : 1u << i;
      }
    } else {
      place.boxes[0] = (kGeneral ? t.from : 0) + static_cast<int>(block) * KEYS;
    }
    return place;
  }
  template <int COLUMNS>
  static __device__ __forceinline__ void fetch(std::uint32_t to, const TensorMap& map, const Place& place, int group,
                                               int batch, std::uint32_t barrier) {
    barrier_expect(barrier, KEYS * 128 * COLUMNS);
    for (int c = 0; c < COLUMNS; ++c) {
      const std::uint32_t column = to + c * KEYS * 128;
      if constexpr (kPaged) {
        for (int i = 0; i < kBoxes; ++i)
          copy_box(column + i * kCacheBlock * 128, map, c * 64, 0, group, place.boxes[i], barrier);
      } else {
        copy_box(column, map, c * 64, place.boxes[0], group, batch, barrier);
      }
    }
  }

  static __device__ __forceinline__ volatile std::uint32_t& missing_in(char* memory, std::uint32_t stage) {
    return reinterpret_cast<volatile std::uint32_t*>(memory + kMissingAt)[stage];
  }

  static __device__ __forceinline__ void produce(const Parameters& p, char* memory, std::uint32_t shared,
                                                 Barriers bars) {
    std::uint32_t it = 0;
    for (std::uint32_t turn = 0; number_of(turn) < tile_count(p); ++turn) {
      const Tile t = tile_at(p, number_of(turn));
      const int group = t.head / p.heads_a_group;
      Place place = place_of(p, t, max(t.blocks, 1u) - 1), before = place;
      for (int g = 0; g < GROUPS; ++g) {
        if (turn > 0) barrier_wait(bars.queries_empty(g), (turn - 1) & 1);
        barrier_expect(bars.queries_full(g), kQueryBytes);
        const std::uint32_t row = t.first + g * 64;
        for (int c = 0; c < kColumns; ++c) {
          const std::uint32_t to = shared + g * kQueryBytes + c * 64 * 128;
          if constexpr (kPaged)
            copy_box(to, p.q, c * 64, 0, t.batch * p.steps + (row >> p.pack), t.head, bars.queries_full(g));
          else
            copy_box(to, p.q, c * 64, row, t.head, t.batch, bars.queries_full(g));
        }
      }
      // Values follow one block behind the keys, as they are needed.
      for (std::uint32_t b = 0; b <= t.blocks; ++b) {
        if (b < t.blocks) {
          const std::uint32_t n = it + b, stage = n % STAGES;
          if (n >= STAGES) barrier_wait(bars.keys_empty(stage), (n / STAGES - 1) & 1);
          if constexpr (kPaged) missing_in(memory, stage) = place.missing;
          fetch<kColumns>(shared + kKeysAt + stage * kKeyBytes, p.k, place, group, t.batch, bars.keys_full(stage));
        }
        Place next = place;
        if (b + 1 < t.blocks) next = place_of(p, t, t.blocks - 2 - b);  // on its way during the next wait
        if (b > 0) {
          const std::uint32_t n = it + b - 1, stage = n % STAGES;
          if (n >= STAGES) barrier_wait(bars.values_empty(stage), (n / STAGES - 1) & 1);
          fetch<kValueColumns>(shared + kValuesAt + stage * kValueBytes, p.v, before, group, t.batch,
                               bars.values_full(stage));
        }
        before = place, place = next;
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

  /// What two rows of a thread attend to.
  struct Seen {
    int first[2], last[2], end;
    std::uint32_t missing;  ///< of this block: Place::missing
    MaskedRows<F16, KEYS> mask;
  };
  /// Of scores as the softmax gets them, in units of log 2.
  static __device__ __forceinline__ float scale_of(const Parameters& p) {
    if constexpr (kMasked) return p.mask.bits == nullptr ? 1 : p.scale;
    return p.scale;
  }

  /// Scores to weights. @param key of the block's first column @param hides whether the block has keys that are not
  /// seen; only asked if MASKED @return the factors by which what was summed before shrinks
  template <bool MASKED>
  static __device__ __forceinline__ float2 weights(float (&s)[KEYS / 2], Softmax& soft, const Parameters& p,
                                                   const Seen& seen, int key, bool hides) {
    if constexpr (kRanged) {
      if (p.cap != 0) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; ++i) s[i] = tanh_of(s[i] * p.cap);
      }
    }
    if constexpr (kMasked) {
      seen.mask.apply(s, p.scale, p.mask, p.queries, static_cast<std::uint32_t>(key));
    } else if constexpr (MASKED) {
      if (hides) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; ++i) {
          const int column = key + i / 4 * 8 + (static_cast<int>(threadIdx.x) & 3) * 2 + (i & 1), h = i >> 1 & 1;
          if (column >= seen.end || (CAUSAL && column > seen.last[h]) ||
              (kRanged && (column < seen.first[h] || (kPaged && (seen.missing >> i / 32 & 1)))))
            s[i] = -INFINITY;
        }
      }
    }
    float shrink[2];
    const float scale = scale_of(p);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = soft.largest[h];
#pragma unroll
      for (int i = h * 2; i < KEYS / 2; i += 4) most = fmaxf(most, fmaxf(s[i], s[i + 1]));
      most = largest_of_row(most);
      const float shift = most == -INFINITY ? 0 : __fmul_rn(most, scale);
      // Rounded as the shift before was: where the maximum stays, nothing shrinks.
      shrink[h] = exp2_fast(__fmul_rn(soft.largest[h], scale) - shift);
      float sum = 0;
#pragma unroll
      for (int i = h * 2; i < KEYS / 2; i += 4) {
        s[i] = exp2_fast(s[i] * scale - shift), s[i + 1] = exp2_fast(s[i + 1] * scale - shift);
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

  /// Makes values behind the end of a sequence 0: of what is left there, weights of 0 may make NaN. All warpgroups that
  /// read a block do so, none waits for the others.
  static __device__ __forceinline__ void clear_values(char* block, int from, std::uint32_t thread) {
    for (int c = 0; c < kValueColumns; ++c) {
      for (std::uint32_t i = from * 8 + thread; i < KEYS * 8; i += 128)
        *reinterpret_cast<uint4*>(block + c * KEYS * 128 + i * 16) = make_uint4(0, 0, 0, 0);
    }
    fence_async();
  }

  /// Stores what a chunk contributes to a thread's two rows, with the maximum of scores and the sum of weights.
  static __device__ __forceinline__ void store_part(const PagedAttentionParameters& p, const Tile& t, std::uint32_t row,
                                                    const float (&o)[VALUES / 2], const Softmax& soft) {
    const std::uint32_t quarter = threadIdx.x & 3;
#pragma unroll
    for (int h = 0; h < 2; ++h, row += 8) {
      if (row >= p.queries) continue;
      float* to = Tiles::part_of(p, t, row);
#pragma unroll
      for (int j = 0; j < VALUES / 8; ++j) {
        const std::uint32_t column = j * 8 + quarter * 2;
        if (column < p.value_size)
          *reinterpret_cast<float2*>(to + column) = make_float2(o[j * 4 + h * 2], o[j * 4 + h * 2 + 1]);
      }
      // The maximum leaves NaN out, the sum does not.
      const float sum = soft.sum[h], largest = isnan(sum) ? sum : soft.largest[h] * p.scale * kLog2;
      if (quarter == 0) *reinterpret_cast<float2*>(to + p.value_size) = make_float2(largest, sum);
    }
  }

  /// Leaves out a block of keys that no row of the warpgroup attends to. @param turns whether warpgroups take turns for
  /// it
  static __device__ __forceinline__ void skip(Barriers bars, std::uint32_t it, int group, bool speaker, bool turns) {
    const std::uint32_t stage = it % STAGES, parity = it / STAGES & 1;
    barrier_wait(bars.keys_full(stage), parity);
    barrier_wait(bars.values_full(stage), parity);
    // A warp that has not seen that they are full would wait for ever once they are filled again.
    sync_threads(4 + group, 128);
    if (speaker) barrier_arrive(bars.keys_empty(stage)), barrier_arrive(bars.values_empty(stage));
    if (turns) wait_for_turn(group), give_turn(group);
  }

  static __device__ __forceinline__ void consume(const Parameters& p, char* memory, std::uint32_t shared,
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
      std::uint32_t own = first >= t.end_row ? 0 : blocks_of(p, t, first, min(first + 64, t.end_row));
      std::uint32_t before_own = 0;  // blocks of keys that only earlier rows attend to
      if constexpr (kGeneral) {
        own = min(own, t.blocks);
        if (own > 0) {
          const int from = keys_of_rows(p, t.batch, first, first + 1).from;
          before_own = min(own - 1, static_cast<std::uint32_t>(max(0, from - t.from)) / KEYS);
        }
      }
      // Blocks of keys that only later rows attend to.
      for (std::uint32_t b = t.blocks; b > own; --b, ++it) skip(bars, it, group, speaker, b > 1);
      barrier_wait(bars.queries_full(group), turn & 1);
      if (own == 0) {
        sync_threads(4 + group, 128);
        if (speaker) barrier_arrive(bars.queries_empty(group));
        continue;
      }
      std::uint32_t block = own - 1;
      Seen seen;
      seen.end = t.end;
      if constexpr (kMasked) seen.mask.batch = t.batch, seen.mask.head = t.head, seen.mask.row = row;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (kMasked) continue;
        if constexpr (kGeneral) {
          const Span keys = keys_of(p, t.batch, row + h * 8);
          seen.first[h] = keys.from, seen.last[h] = keys.end - 1;
          continue;
        }
        seen.last[h] = last_key(p, t, row + h * 8);
        if constexpr (kPaged) seen.first[h] = oldest_of(p, seen.last[h]);
      }
      // Keys from the first to the second one are seen by all of the warpgroup's rows.
      int all_from = 0, all_to = 0;
      if constexpr (kPaged) {
        all_from = oldest_of(p, last_key(p, t, first + 63));
        all_to = min(t.end - 1, last_key(p, t, first));
      } else if constexpr (kGeneral && !kMasked) {
        all_from = keys_of(p, t.batch, first + 63).from, all_to = keys_of(p, t.batch, first).end - 1;
      }
      float s[KEYS / 2], o[VALUES / 2];
      std::uint32_t a[KEYS / 16][4];
      Softmax soft{{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
      for (int j = 0; j < VALUES / 2; ++j) o[j] = 0;

      if constexpr (kMasked) seen.mask.read(p.mask, t.from + block * KEYS);
      barrier_wait(bars.keys_full(it % STAGES), it / STAGES & 1);
      if constexpr (kPaged) seen.missing = missing_in(memory, it % STAGES);
      product_fence();
      scores(s, q, shared + kKeysAt + it % STAGES * kKeyBytes);
      product_commit();
      product_wait<0>();
      if (speaker) barrier_arrive(bars.keys_empty(it % STAGES));
      weights<true>(s, soft, p, seen, t.from + block * KEYS, true);
      to_operands(s, a);

      if constexpr (kPaged) {
        if (const int rows = t.end - t.from - static_cast<int>(block) * KEYS; rows < KEYS && rows % kCacheBlock != 0) {
          barrier_wait(bars.values_full(it % STAGES), it / STAGES & 1);
          clear_values(memory + kValuesAt + it % STAGES * kValueBytes, max(rows, 0), in_group);
          sync_threads(4 + group, 128);
        }
      }

      while (block > before_own) {
        const std::uint32_t before = it % STAGES, parity_before = it / STAGES & 1;
        ++it, --block;
        const std::uint32_t stage = it % STAGES;
        if constexpr (kMasked) seen.mask.read(p.mask, t.from + block * KEYS);
        barrier_wait(bars.keys_full(stage), it / STAGES & 1);
        if constexpr (kPaged) seen.missing = missing_in(memory, stage);
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
        const int key = t.from + static_cast<int>(block) * KEYS;
        const bool hides = kRanged && (key < all_from || key + KEYS - 1 > all_to || (kPaged && seen.missing != 0));
        const float2 shrink = weights<kRanged>(s, soft, p, seen, key, hides);
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
        if constexpr (!kPaged) {
          if ((lane & 3) == 0 && row + h * 8 < t.end_row) {
            const std::size_t at = (static_cast<std::size_t>(t.batch) * p.heads + t.head) * p.queries + row + h * 8;
            p.logsumexp[at] = (soft.largest[h] * scale_of(p) + __log2f(sum)) * kLog2;
          }
        } else {
          soft.sum[h] = sum;
        }
      }
      product_wait<0>();
      if (speaker) barrier_arrive(bars.values_empty(it % STAGES));
      ++it;
      if constexpr (kGeneral) {
        for (std::uint32_t b = before_own; b > 0; --b, ++it) skip(bars, it, group, speaker, true);
      }
      if constexpr (!kStageApart) sync_threads(4 + group, 128);
      if (kPaged && chunks_of(p) > 1) {
        if constexpr (kPaged) store_part(p, t, row, o, soft);
      } else {
        store_rows<F16, VALUES>([&](std::uint32_t r) { return Tiles::result_row(p, t, r); }, first + warp * 16,
                                t.end_row, p.value_size, o, inverse,
                                memory + kResultsAt + group * kResultPitch + warp * 16 * VALUES * 2);
      }
      if constexpr (!kStageApart) {
        fence_async();
        sync_threads(4 + group, 128);
        if (speaker) barrier_arrive(bars.queries_empty(group));
      }
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p, char* memory) {
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
      if (threadIdx.x == 0) produce(p, memory, shared, bars);
    } else {
      take_registers<kConsumerRegisters>();
      consume(p, memory, shared, bars);
    }
  }
};

}  // namespace hopper
