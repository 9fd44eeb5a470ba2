#pragma once
// Which rows and keys a block of attention works on, and where its results go.
#include <type_traits>

#include "attention_mask.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin.cpp.
struct AttentionParameters {
  TensorMap q, k, v;  ///< [batch, heads, rows, size]
  std::uint16_t* y;
  float* logsumexp;  ///< [batch, heads, queries]
  std::uint32_t batch, heads, heads_a_group, queries, keys;
  std::uint32_t value_size;              ///< of a row of y
  std::uint32_t y_batch, y_head, y_row;  ///< strides in elements
  float scale;                           ///< of scores, or of their tanh, in units of log 2
  std::uint32_t tiles;                   ///< of queries, per head
  // What follows is for kernels with GeneralAttentionParameters.
  std::uint32_t causal, window;  ///< window: 0: none
  float cap;                     ///< what a product is multiplied by before tanh_of(); 0: no soft cap
  const int2* documents;         ///< [batch, queries]: bounds of each one's document; nullptr: none
  AttentionMask mask;            ///< of MaskedAttentionParameters, which have none of these but the soft cap
};

/// Says by its type that a kernel knows soft caps, and asks at run time for triangle, window and documents.
struct GeneralAttentionParameters : AttentionParameters {};
/// A mask, and soft caps.
struct MaskedAttentionParameters : AttentionParameters {};

/// Queries are [batch, steps, heads, size], dense. A row is one of `1 << pack` neighbouring heads of one of the steps;
/// `heads` counts such packs, `queries` the rows of one.
struct PagedAttentionParameters {
  TensorMap q;           ///< [packs, batch * steps, heads of a pack, size]; a box has 64 rows
  TensorMap k, v;        ///< [blocks, heads of keys, 64, size]
  const int* table;      ///< [batch, table_width]
  const int* positions;  ///< [batch]: of the first step
  std::uint16_t* y;      ///< as queries, if there is one chunk
  float* parts;          ///< [batch, steps, heads of keys, chunks, heads, value_size + 2] else: with maximum and sum
  std::uint32_t batch, heads, heads_a_group, queries, value_size;
  float scale;  ///< of scores, or of their tanh, in units of log 2
  std::uint32_t tiles;
  std::uint32_t steps, pack, table_width, cache_blocks;
  std::uint32_t chunks, least;  ///< the fewest positions of a chunk
  std::uint32_t window;         ///< 0: none; with the highest bit, it begins at a multiple of the other bits
  float cap;                    ///< as in AttentionParameters
};

constexpr int kCacheBlock = 64;  ///< positions of a block of a paged cache

template <typename Parameters>
__device__ __forceinline__ Span in_document(Span s, const Parameters& p, std::uint32_t batch, std::uint32_t row) {
  if (p.documents == nullptr) return s;
  const int2 document = p.documents[static_cast<std::size_t>(batch) * p.queries + row];
  return {max(s.from, document.x), min(s.end, document.y)};
}
/// The keys that a query attends to; of one that is not there, those of the last. Where documents are contiguous,
/// neither bound decreases from row to row.
template <typename Parameters>
__device__ __forceinline__ Span keys_of(const Parameters& p, std::uint32_t batch, std::uint32_t query) {
  const int row = static_cast<int>(min(query, p.queries - 1)), keys = static_cast<int>(p.keys);
  const Span s{p.window > 0 ? max(0, row + 1 - static_cast<int>(p.window)) : 0, p.causal ? min(keys, row + 1) : keys};
  return in_document(s, p, batch, static_cast<std::uint32_t>(row));
}
/// The queries that attend to a key; none if it is not there.
template <typename Parameters>
__device__ __forceinline__ Span queries_of(const Parameters& p, std::uint32_t batch, std::uint32_t key) {
  const int row = static_cast<int>(key), queries = static_cast<int>(p.queries);
  if (key >= p.keys) return {queries, 0};
  const Span s{p.causal ? row : 0, p.window > 0 ? min(queries, row + static_cast<int>(p.window)) : queries};
  return in_document(s, p, batch, key);
}

/// The first position that the one at `position` attends to: oldest_of() in shaders/lib/paged_span.glsl.
__device__ __forceinline__ int oldest_of(const PagedAttentionParameters& p, int position) {
  const int size = static_cast<int>(p.window & 0x7FFFFFFF);
  if (size == 0 || position < 0) return 0;
  return p.window >> 31 ? position - position % size : max(0, position + 1 - size);
}

/// tanh of x / (2 log2 e).
__device__ __forceinline__ float tanh_of(float x) { return 1 - __fdividef(2.0f, 1 + exp2_fast(x)); }

/// Tiles of ROWS queries, keys by KEYS.
template <bool CAUSAL, int ROWS, int KEYS, typename Parameters>
struct AttentionTiles {
  static constexpr bool kPaged = std::is_same_v<Parameters, PagedAttentionParameters>;
  static constexpr bool kMasked = std::is_same_v<Parameters, MaskedAttentionParameters>;
  static constexpr bool kGeneral = kMasked || std::is_same_v<Parameters, GeneralAttentionParameters>;

  struct Tile {
    std::uint32_t first, end_row;       ///< its queries: the first, and the one behind the last
    std::uint32_t head, batch, blocks;  ///< blocks: of keys that any of its rows attends to
    std::uint32_t chunk = 0;
    int from = 0, end = 0, past = 0;  ///< the first key of block 0, the end of keys, the key of row 0
  };

  /// The last key that a row attends to.
  static __device__ __forceinline__ int last_key(const Parameters& p, const Tile& t, std::uint32_t row) {
    if constexpr (kPaged) return t.past + static_cast<int>(row >> p.pack);
    return static_cast<int>(row);
  }
  /// The keys of rows first ... end - 1, of general kernels.
  static __device__ __forceinline__ Span keys_of_rows(const Parameters& p, std::uint32_t batch, std::uint32_t first,
                                                      std::uint32_t end) {
    if constexpr (kMasked) return span_of(p.mask, batch, first, end);
    return {keys_of(p, batch, first).from, keys_of(p, batch, end - 1).end};
  }
  /// Blocks of keys of rows first ... end - 1; where `first` is an earlier row, the triangle or the cache says enough.
  static __device__ __forceinline__ std::uint32_t blocks_of(const Parameters& p, const Tile& t, std::uint32_t first,
                                                            std::uint32_t end) {
    // Rows that attend to nothing are 0, which somebody has to write.
    if constexpr (kGeneral)
      return static_cast<std::uint32_t>(max(1, (keys_of_rows(p, t.batch, first, end).end - t.from + KEYS - 1) / KEYS));
    const int keys = (CAUSAL ? min(t.end, last_key(p, t, end - 1) + 1) : t.end) - t.from;
    if constexpr (kPaged) {
      if (keys <= 0) return p.chunks == 1 ? 1 : 0;
    }
    return (static_cast<std::uint32_t>(keys) + KEYS - 1) / KEYS;
  }
  /// The chunk's keys: balanced_span() in shaders/lib/paged.glsl, less what the tile's window hides.
  static __device__ __forceinline__ void set_span(const PagedAttentionParameters& p, Tile& t) {
    t.past = p.positions[t.batch];
    const int end = max(0, min(t.past + static_cast<int>(p.steps), static_cast<int>(p.table_width * kCacheBlock)));
    const int base = min(oldest_of(p, t.past), end) / kCacheBlock * kCacheBlock;
    const std::uint32_t blocks = (end - base + kCacheBlock - 1) / kCacheBlock,
                        size = max(p.least, (blocks + p.chunks - 1) / p.chunks * kCacheBlock);
    t.from = base + static_cast<int>(t.chunk * size);
    t.end = min(end, t.from + static_cast<int>(size));
    t.from = max(t.from, oldest_of(p, last_key(p, t, t.first)) / kCacheBlock * kCacheBlock);
  }
  /// The number of this block's tile in a turn. Every second turn gives tiles out backwards, so that blocks get as many
  /// keys where each tile has fewer of them than the one before.
  static __device__ __forceinline__ std::uint32_t number_of(std::uint32_t turn) {
    return turn * gridDim.x + (CAUSAL && turn & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  }
  static __device__ __forceinline__ std::uint32_t chunks_of(const Parameters& p) {
    if constexpr (kPaged) return p.chunks;
    return 1;
  }
  /// Tiles with the most keys come first, of all heads; without a triangle, tiles of a head follow each other.
  static __device__ __forceinline__ Tile tile_at(const Parameters& p, std::uint32_t i) {
    const std::uint32_t all = p.heads * p.batch * chunks_of(p);
    std::uint32_t row, head;
    if constexpr (CAUSAL) {
      row = i / all, head = i - row * all;
      row = p.tiles - 1 - row;
    } else {
      head = i / p.tiles, row = i - head * p.tiles;
    }
    Tile t;
    // In a triangle the first tile is the one that is not full, as it has the fewest keys. Warpgroups begin at
    // multiples of 64 rows, so that only their last block of keys is masked.
    const std::uint32_t missing = CAUSAL && !kPaged ? (p.tiles * ROWS - p.queries) / 64 * 64 : 0;
    t.first = row == 0 ? 0 : row * ROWS - missing;
    t.end_row = min((row + 1) * ROWS - missing, p.queries);
    t.batch = head / p.heads, t.head = head - t.batch * p.heads;
    if constexpr (kPaged) {
      t.chunk = t.batch / p.batch, t.batch -= t.chunk * p.batch;
      set_span(p, t);
    } else {
      t.end = static_cast<int>(p.keys);
      if constexpr (kGeneral) t.from = min(t.end, keys_of_rows(p, t.batch, t.first, t.end_row).from);
    }
    t.blocks = blocks_of(p, t, t.first, t.end_row);
    return t;
  }
  static __device__ __forceinline__ std::uint32_t tile_count(const Parameters& p) {
    return p.tiles * p.heads * p.batch * chunks_of(p);
  }

  static __device__ __forceinline__ std::uint16_t* result_row(const Parameters& p, const Tile& t, std::uint32_t row) {
    if constexpr (kPaged) {
      const std::size_t step = static_cast<std::size_t>(t.batch) * p.steps + (row >> p.pack);
      return p.y + (((step * p.heads + t.head) << p.pack) + (row & ((1u << p.pack) - 1))) * p.value_size;
    } else {
      return p.y + static_cast<std::size_t>(t.batch) * p.y_batch + static_cast<std::size_t>(t.head) * p.y_head +
             static_cast<std::size_t>(row) * p.y_row;
    }
  }

  /// Where a chunk's contribution to a row goes.
  static __device__ __forceinline__ float* part_of(const PagedAttentionParameters& p, const Tile& t,
                                                   std::uint32_t row) {
    const std::size_t step = static_cast<std::size_t>(t.batch) * p.steps + (row >> p.pack);
    const std::uint32_t group = t.head / p.heads_a_group, groups = p.heads / p.heads_a_group,
                        head = ((t.head - group * p.heads_a_group) << p.pack) + (row & ((1u << p.pack) - 1));
    return p.parts +
           (((step * groups + group) * p.chunks + t.chunk) * (p.heads_a_group << p.pack) + head) * (p.value_size + 2);
  }
};

}  // namespace hopper
