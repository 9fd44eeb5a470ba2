#pragma once
// Masks of attention. A kernel before reads a mask once for all heads that share it, in blocks of 64 queries and 128
// keys: which keys queries attend to, so that others are skipped, and which blocks change nothing. It packs bools, so
// that a thread finds a row of a block in 16 bytes. Numbers that are added are read where they lie, in whole 16 bytes,
// which four threads exchange, as each holds pairs of columns.
#include "hopper.cuh"

namespace hopper {

/// Rows from ... end - 1.
struct Span {
  int from, end;
};

constexpr int kMaskQueries = 64, kMaskKeys = 128;

/// What kernels read of masks [queries, keys]. Rows are queries, and in backward keys; columns are the others.
struct AttentionMask {
  const Span* spans;          ///< [batch, query_blocks]: keys that some head attends to, from a multiple of kMaskKeys
  const std::uint8_t* open;   ///< [masks, query_blocks, key_blocks]: whether a block hides and adds nothing
  const std::uint32_t* bits;  ///< of bools, [masks, rows, words]; rows and columns beyond the mask have zeros
  const void* values;         ///< else: what is added; rows end at whole 16 bytes, with -inf beyond the mask
  std::uint32_t batch_spans, batch_masks, head_masks;  ///< how many to the next batch or head; 0 where they share
  std::uint32_t query_blocks, key_blocks, words;       ///< query_blocks: an even number
  std::uint32_t columns, wide;                         ///< of values; wide: they are f32
  std::uint32_t strides[3];                            ///< of values, in elements: batch, head, row
};

/// The keys that queries first ... end - 1 attend to, and others between them.
__device__ __forceinline__ Span span_of(const AttentionMask& m, std::uint32_t batch, std::uint32_t first,
                                        std::uint32_t end) {
  Span all{2147483647, 0};
  for (std::uint32_t i = first / kMaskQueries; i * kMaskQueries < end; ++i) {
    const Span s = m.spans[batch * m.batch_spans + i];
    all = {min(all.from, s.from), max(all.end, s.end)};
  }
  return all;
}
__device__ __forceinline__ std::uint32_t mask_of(const AttentionMask& m, std::uint32_t batch, std::uint32_t head) {
  return batch * m.batch_masks + head * m.head_masks;
}
__device__ __forceinline__ bool is_open(const AttentionMask& m, std::uint32_t mask, std::uint32_t query,
                                        std::uint32_t key) {
  const std::size_t row = static_cast<std::size_t>(mask) * m.query_blocks + query / kMaskQueries;
  return m.open[row * m.key_blocks + key / kMaskKeys] != 0;
}

/// Bits of a thread's two rows: two of each eight columns are its own, and those of 32 columns lie between the others'.
/// @param rows of a mask, filled up
template <int COLUMNS>
__device__ __forceinline__ void read_bits(std::uint32_t (&bits)[2], const AttentionMask& m, std::uint32_t mask,
                                          std::uint32_t rows, std::uint32_t row, std::uint32_t column) {
  static_assert(COLUMNS == 64 || COLUMNS == 128);
  const auto own = [](std::uint32_t word) { return word >> (threadIdx.x & 3) * 2 & 0x03030303; };
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t* at =
        m.bits + (static_cast<std::size_t>(mask) * rows + row + h * 8) * m.words + column / 32;
    if constexpr (COLUMNS == 128) {
      const uint4 x = *reinterpret_cast<const uint4*>(at);
      bits[h] = own(x.x) | own(x.y) << 2 | own(x.z) << 4 | own(x.w) << 6;
    } else {
      const uint2 x = *reinterpret_cast<const uint2*>(at);
      bits[h] = own(x.x) | own(x.y) << 2;
    }
  }
}
/// Whether bits hide element i of a thread's sums.
__device__ __forceinline__ bool hidden_by(const std::uint32_t (&bits)[2], int i) {
  return (bits[i >> 1 & 1] >> (i / 4 % 4 * 8 + i / 16 * 2 + (i & 1)) & 1) == 0;
}

/// A score in units of log 2 with what a mask adds. What is finite stays so: a row of nothing but the lowest number
/// attends to all keys alike.
__device__ __forceinline__ float added(float score, float scale, float value) {
  constexpr float lowest = -1e38f;
  const float x = value * 1.44269504088896f;
  return score * scale + (value > -INFINITY && x < lowest ? lowest : x);
}

/// Adds the mask to scores, a thread's two rows from `row` on. All threads of a warp take part.
/// @param rows of the mask; others are hidden
template <bool F16, int COLUMNS>
__device__ __forceinline__ void add_mask(float (&s)[COLUMNS / 2], float scale, const AttentionMask& m,
                                         std::uint32_t batch, std::uint32_t head, std::uint32_t row,
                                         std::uint32_t rows, std::uint32_t column) {
  const std::uint32_t first = column + (threadIdx.x & 3) * 8;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t r = row + h * 8;
    const std::size_t at = static_cast<std::size_t>(batch) * m.strides[0] +
                           static_cast<std::size_t>(head) * m.strides[1] +
                           static_cast<std::size_t>(r) * m.strides[2] + first;
    const std::uint32_t columns = r < rows ? m.columns : 0;
    if (m.wide != 0) {
#pragma unroll
      for (int j = 0; j < COLUMNS / 32; ++j) {
        const std::uint32_t low = 0xFF800000;
        uint4 a = make_uint4(low, low, low, low), b = a;
        if (first + j * 32 < columns) {
          const uint4* from = reinterpret_cast<const uint4*>(static_cast<const float*>(m.values) + at + j * 32);
          a = from[0], b = from[1];
        }
        std::uint32_t even[4] = {a.x, a.z, b.x, b.z}, odd[4] = {a.y, a.w, b.y, b.w};
        transpose_of_four(even);
        transpose_of_four(odd);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* x = s + (j * 4 + i) * 4 + h * 2;
          x[0] = added(x[0], scale, __uint_as_float(even[i]));
          x[1] = added(x[1], scale, __uint_as_float(odd[i]));
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < COLUMNS / 32; ++j) {
        const std::uint32_t low = F16 ? 0xFC00FC00 : 0xFF80FF80;
        uint4 a = make_uint4(low, low, low, low);
        if (first + j * 32 < columns)
          a = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(m.values) + at + j * 32);
        std::uint32_t pairs[4] = {a.x, a.y, a.z, a.w};
        transpose_of_four(pairs);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* x = s + (j * 4 + i) * 4 + h * 2;
          const float2 two = unpack<F16>(pairs[i]);
          x[0] = added(x[0], scale, two.x), x[1] = added(x[1], scale, two.y);
        }
      }
    }
  }
}

/// A mask of a thread's two rows of queries, row and row + 8, at a block of keys.
template <bool F16, int KEYS>
struct MaskedRows {
  std::uint32_t batch, head, row, bits[2];
  bool hides;  ///< whether it changes this block

  /// Before the scores are there.
  __device__ __forceinline__ void read(const AttentionMask& m, std::uint32_t key) {
    const std::uint32_t mask = mask_of(m, batch, head);
    hides = !is_open(m, mask, row, key);
    if (hides && m.bits != nullptr) read_bits<KEYS>(bits, m, mask, m.query_blocks * kMaskQueries, row, key);
  }
  /// To scores; where the mask is added, they become those in units of log 2.
  __device__ __forceinline__ void apply(float (&s)[KEYS / 2], float scale, const AttentionMask& m,
                                        std::uint32_t queries, std::uint32_t key) const {
    if (m.bits == nullptr) {
      if (hides) return add_mask<F16, KEYS>(s, scale, m, batch, head, row, queries, key);
#pragma unroll
      for (int i = 0; i < KEYS / 2; ++i) s[i] *= scale;
    } else if (hides) {
#pragma unroll
      for (int i = 0; i < KEYS / 2; ++i) {
        if (hidden_by(bits, i)) s[i] = -INFINITY;
      }
    }
  }
};

/// The kernel before. A block a block of queries of a batch, with all keys and heads.
struct AttentionMaskParameters {
  const void* mask;
  Span* spans;
  std::uint8_t* open;
  std::uint32_t* bits;       ///< nullptr: not bools
  std::uint32_t strides[4];  ///< of the mask, in elements: batch, head, query, key
  std::uint32_t heads, queries, keys, query_blocks, key_blocks;
  std::uint32_t across;    ///< whether rows of bits are keys
  std::uint32_t infinity;  ///< what hides, as bits of 16 or 32; 0: bools
};

/// 16 queries of a key; what hides where there is none. All loads are under way at once.
template <typename T>
__device__ __forceinline__ void load_queries(std::uint32_t (&x)[16], const AttentionMaskParameters& p, std::size_t at,
                                             std::uint32_t first, bool there) {
  const T* from = static_cast<const T*>(p.mask) + at + static_cast<std::size_t>(first) * p.strides[2];
#pragma unroll
  for (std::uint32_t r = 0; r < 16; ++r)
    x[r] = there && first + r < p.queries ? from[static_cast<std::size_t>(r) * p.strides[2]] : p.infinity;
}

/// At most, and so many bytes of shared memory; kernels take as many as are launched, in eights of warps.
constexpr int kMaskThreads = 1024, kMaskBytes = 2 * kMaskThreads / 32 * 4;

/// Each warp reads 32 queries by 32 keys, eight of them a block. Latency bounds it.
__device__ __forceinline__ void attention_mask(const AttentionMaskParameters& p, char* memory) {
  const std::uint32_t batch = blockIdx.x / p.query_blocks, block = blockIdx.x - batch * p.query_blocks;
  const std::uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5,
                      first = block * kMaskQueries + warp % 2 * 32;
  volatile std::uint32_t* found = reinterpret_cast<volatile std::uint32_t*>(memory);
  const std::uint32_t zero = p.infinity > 0xFFFF ? 0x80000000 : 0x8000;  // the other one
  Span span{static_cast<int>(p.key_blocks - 1) * kMaskKeys, 0};
  std::uint32_t turn = 0;
  for (std::uint32_t head = 0; head < p.heads; ++head) {
    const std::uint32_t mask = batch * p.heads + head;
    std::uint8_t* open = p.open + (static_cast<std::size_t>(mask) * p.query_blocks + block) * p.key_blocks;
    for (std::uint32_t some = 0; some < p.key_blocks; some += warps / 8, turn ^= 1) {
      const std::uint32_t k = some + warp / 8, in_block = warp / 2 % 4, key = k * kMaskKeys + in_block * 32 + lane;
      const std::size_t at = static_cast<std::size_t>(batch) * p.strides[0] +
                             static_cast<std::size_t>(head) * p.strides[1] +
                             static_cast<std::size_t>(key) * p.strides[3];
      std::uint32_t row = 0, column = 0;
      bool any = false, changed = false;
#pragma unroll 1
      for (std::uint32_t half = 0; half < 32; half += 16) {
        std::uint32_t x[16];
        if (p.infinity == 0)
          load_queries<std::uint8_t>(x, p, at, first + half, key < p.keys);
        else if (p.infinity > 0xFFFF)
          load_queries<std::uint32_t>(x, p, at, first + half, key < p.keys);
        else
          load_queries<std::uint16_t>(x, p, at, first + half, key < p.keys);
#pragma unroll
        for (std::uint32_t r = 0; r < 16; ++r) {
          const bool seen = x[r] != p.infinity;
          any |= seen;
          changed |= !seen || (p.infinity != 0 && x[r] != 0 && x[r] != zero);
          const std::uint32_t of_row = __ballot_sync(~0u, seen);
          row = lane == half + r ? of_row : row;
          column |= (seen ? 1u : 0) << (half + r);
        }
      }
      if (p.bits != nullptr && k < p.key_blocks) {
        if (p.across)
          p.bits[(static_cast<std::size_t>(mask) * p.key_blocks * kMaskKeys + key) * (p.query_blocks * 2) + block * 2 +
                 warp % 2] = column;
        else
          p.bits[(static_cast<std::size_t>(mask) * p.query_blocks * kMaskQueries + first + lane) * (p.key_blocks * 4) +
                 k * 4 + in_block] = row;
      }
      any = __ballot_sync(~0u, any) != 0, changed = __ballot_sync(~0u, changed) != 0;
      if (lane == 0) found[turn * warps + warp] = (any ? 1 : 0) | (changed ? 2 : 0);
      __syncthreads();
      if (warp != 0) continue;
      const std::uint32_t of_warp = lane < warps ? found[turn * warps + lane] : 0,
                          with_any = __ballot_sync(~0u, (of_warp & 1) != 0),
                          with_change = __ballot_sync(~0u, (of_warp & 2) != 0);
      for (std::uint32_t i = 0; i < warps / 8 && some + i < p.key_blocks; ++i) {
        if (with_any >> i * 8 & 0xFF) {
          span.from = min(span.from, static_cast<int>(some + i) * kMaskKeys);
          span.end = max(span.end, static_cast<int>(min((some + i + 1) * kMaskKeys, p.keys)));
        }
        if (lane == 0) open[some + i] = (with_change >> i * 8 & 0xFF) == 0;
      }
    }
  }
  if (threadIdx.x == 0) p.spans[blockIdx.x] = span;
}

}  // namespace hopper
