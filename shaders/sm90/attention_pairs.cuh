#pragma once
// What kernels of backward share: the work of a block and the order in which blocks add to gradients of queries, what
// scores and their gradients become between products, and barriers of stages.
#include "attention_tiles.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin.cpp.
struct AttentionGradientParameters {
  TensorMap q, k, v, dy;  ///< [batch, heads, rows, size]
  const float2* rows;     ///< [batch, heads, tiles · rows of a tile]: logsumexp in units of log 2; Σ y · dy
  float* dq;              ///< sums: blocks of 64 x 64, each in the order of a warpgroup's sums
  std::uint32_t* turns;   ///< [batch, heads, tiles, kTurns], then how many blocks have begun; 0 at first
  std::uint16_t *dk, *dv;
  std::uint32_t batch, heads, heads_a_group, queries, keys, size;
  std::uint32_t value_size;                            ///< of v and dv; both sizes at most SIZE
  std::uint32_t strides[3], value_strides[3];          ///< of dk and dv, in elements: batch, head, row
  float scale, log2_scale;
  std::uint32_t tiles, key_tiles;
  // What follows is for kernels with GeneralGradientParameters, as in AttentionParameters; log2_scale is then of capped
  // scores' tanh.
  std::uint32_t causal, window;
  float cap;
  const int2* documents;
  const std::uint32_t* ranges;  ///< [batch, 2 · key_tiles + tiles]: attention_ranges()
  AttentionMask mask;           ///< of MaskedGradientParameters, as in AttentionParameters; rows are keys
};
struct GeneralGradientParameters : AttentionGradientParameters {};
/// A bool mask, and soft caps, or one that is added.
struct MaskedGradientParameters : AttentionGradientParameters {};

/// Tiles of QUERIES queries and KEYS keys; scores are transposed. Work alternates among HEADS heads of keys, so that
/// blocks which add to the same tile reach it farther apart.
template <bool F16, bool CAUSAL, int QUERIES, int KEYS, typename Parameters, std::uint32_t HEADS = 1>
struct AttentionPairs {
  static constexpr bool kMasked = std::is_same_v<Parameters, MaskedGradientParameters>;
  static constexpr bool kGeneral = kMasked || std::is_same_v<Parameters, GeneralGradientParameters>;

  struct Work {
    std::uint32_t tile, group, batch;  ///< of keys; head of keys
    std::uint32_t first, past;         ///< tiles of queries that attend to it; past: of general kernels, else all
  };
  static __device__ __forceinline__ Work work_at(const Parameters& p, std::uint32_t i) {
    Work w;
    const std::uint32_t groups = p.heads / p.heads_a_group, first = i / (HEADS * p.key_tiles) * HEADS,
                        heads = HEADS == 1 ? 1 : min(HEADS, groups * p.batch - first),
                        in_heads = i - first * p.key_tiles, head = first + in_heads % heads;
    w.tile = p.key_tiles - 1 - in_heads / heads;
    w.batch = head / groups, w.group = head - w.batch * groups;
    w.first = CAUSAL ? w.tile * KEYS / QUERIES : 0;
    if constexpr (kGeneral) {
      const std::uint32_t* ranges = ranges_of(p, w.batch) + 2 * w.tile;
      w.first = ranges[0], w.past = ranges[1];
    }
    return w;
  }
  static __device__ __forceinline__ const std::uint32_t* ranges_of(const Parameters& p, std::uint32_t batch) {
    return p.ranges + static_cast<std::size_t>(batch) * (2 * p.key_tiles + p.tiles);
  }
  static __device__ __forceinline__ std::uint32_t past_of(const Parameters& p, const Work& w) {
    if constexpr (kGeneral) return w.past;
    return p.tiles;
  }
  /// Of the blocks that add to a tile of queries, how many come before that of the work's tile of keys.
  static __device__ __forceinline__ std::uint32_t turn_of(const Parameters& p, std::uint32_t tile, const Work& w) {
    std::uint32_t last = CAUSAL ? min(p.key_tiles - 1, ((tile + 1) * QUERIES - 1) / KEYS) : p.key_tiles - 1;
    if constexpr (kGeneral) last = ranges_of(p, w.batch)[2 * p.key_tiles + tile];
    return last - w.tile;
  }

  static __device__ __forceinline__ std::uint32_t work_count(const Parameters& p) {
    return p.key_tiles * (p.heads / p.heads_a_group) * p.batch;
  }
  /// Blocks take work in the order in which they ask: what a block waits for is another's that goes on.
  /// @param turns of each tile of queries
  static __device__ __forceinline__ std::uint32_t next_work(const Parameters& p, std::uint32_t turns = 1) {
    return atomicAdd(p.turns + static_cast<std::size_t>(p.batch) * p.heads * p.tiles * turns, 1);
  }

  /// Queries that attend to all of 64 keys, of general kernels without a mask.
  static __device__ __forceinline__ Span by_all(const Parameters& p, std::uint32_t batch, std::uint32_t first) {
    if constexpr (kGeneral && !kMasked)
      return {queries_of(p, batch, first + 63).from, queries_of(p, batch, first).end};
    return {};
  }
  /// Whether hide() has something to do. @param seen by_all() of the keys
  static __device__ __forceinline__ bool is_partial(const Parameters& p, const Work& w, std::uint32_t t,
                                                    const Span& seen) {
    if constexpr (kMasked) return false;
    if constexpr (kGeneral)
      return static_cast<int>(t * QUERIES) < seen.from || static_cast<int>((t + 1) * QUERIES) > seen.end;
    return (CAUSAL && t * QUERIES < (w.tile + 1) * KEYS) || (w.tile + 1) * KEYS > p.keys ||
           (t + 1) * QUERIES > p.queries;
  }
  /// Sets what does not count to 0: pairs beyond the triangle, the keys or the queries.
  /// @param query, key of the first element
  static __device__ __forceinline__ void hide(float (&x)[QUERIES / 2], const Parameters& p, std::uint32_t batch,
                                              std::uint32_t query, std::uint32_t key) {
    Span seen[2] = {};  // read again for each tile that needs them: registers are scarce
    if constexpr (kGeneral) seen[0] = queries_of(p, batch, key), seen[1] = queries_of(p, batch, key + 8);
#pragma unroll
    for (int i = 0; i < QUERIES / 2; ++i) {
      const std::uint32_t at = key + (i >> 1 & 1) * 8, row = query + i / 4 * 8 + (i & 1);
      if constexpr (kGeneral) {
        const Span& s = seen[i >> 1 & 1];
        if (static_cast<int>(row) < s.from || static_cast<int>(row) >= s.end) x[i] = 0;
        continue;
      }
      if (at >= p.keys || row >= p.queries || (CAUSAL && at > row)) x[i] = 0;
    }
  }
  /// Scores to weights. @param scale of scores, in units of log 2
  static __device__ __forceinline__ void weights(float (&s)[QUERIES / 2], const float4* rows, const Parameters& p,
                                                 float scale) {
    if constexpr (kGeneral) {
      if (p.cap != 0) {
#pragma unroll
        for (int i = 0; i < QUERIES / 2; ++i) s[i] = tanh_of(s[i] * p.cap);
      }
    }
#pragma unroll
    for (int j = 0; j < QUERIES / 8; ++j) {
      const float4 two = rows[j * 4 + (threadIdx.x & 3)];
#pragma unroll
      for (int i = j * 4; i < j * 4 + 4; ++i) {
        float x = s[i] * scale - (i & 1 ? two.z : two.x);
        // Of numbers so large that a row's logsumexp is rounded by more than it says.
        if constexpr (kMasked) x = x > 0 ? 0 : x;
        s[i] = exp2_fast(x);
      }
    }
  }
  /// The same under a mask. What it says is read here, as registers are scarce. @param key of the thread's first row
  static __device__ __forceinline__ void masked_weights(float (&s)[QUERIES / 2], const float4* rows,
                                                        const Parameters& p, const Work& w, std::uint32_t t,
                                                        std::uint32_t head, std::uint32_t key) {
    const std::uint32_t mask = mask_of(p.mask, w.batch, head), query = t * QUERIES;
    bool hides = !is_open(p.mask, mask, query, key);
    if constexpr (QUERIES > kMaskQueries) hides = hides || !is_open(p.mask, mask, query + kMaskQueries, key);
    if (p.mask.bits == nullptr) {
      if (hides) add_mask<F16, QUERIES>(s, p.log2_scale, p.mask, w.batch, head, key, p.keys, query);
      return weights(s, rows, p, hides ? 1 : p.log2_scale);
    }
    weights(s, rows, p, p.log2_scale);
    if (!hides) return;
    std::uint32_t bits[2];
    read_bits<QUERIES>(bits, p.mask, mask, p.mask.key_blocks * kMaskKeys, key, query);
#pragma unroll
    for (int i = 0; i < QUERIES / 2; ++i) {
      if (hidden_by(bits, i)) s[i] = 0;
    }
  }
  /// Gradients of weights to gradients of scores, but for the scale. tanh of a soft cap comes from the weight's
  /// logarithm, which needs no registers from one product to the other; of a weight of 0, whose gradient is 0, it is
  /// what it may be. In a loop of its own it took so many registers that products waited for each other.
  static __device__ __forceinline__ void gradients(float (&ds)[QUERIES / 2], const float (&weights)[QUERIES / 2],
                                                   const float4* rows, const Parameters& p) {
#pragma unroll
    for (int j = 0; j < QUERIES / 8; ++j) {
      const float4 two = rows[j * 4 + (threadIdx.x & 3)];
#pragma unroll
      for (int i = j * 4; i < j * 4 + 4; ++i) {
        ds[i] = weights[i] * (ds[i] - (i & 1 ? two.w : two.y));
        if constexpr (kMasked) ds[i] = weights[i] == 0 ? 0 : ds[i];
      }
      if constexpr (kGeneral) {
        if (p.cap == 0) continue;
        const float factor = __fdividef(1.0f, p.log2_scale);
#pragma unroll
        for (int i = j * 4; i < j * 4 + 4; ++i) {
          const float t = fmaxf(-1, fminf(1, (__log2f(weights[i]) + (i & 1 ? two.z : two.x)) * factor));
          ds[i] -= ds[i] * t * t;
        }
      }
    }
  }
  static __device__ __forceinline__ void to_operands(const float (&s)[QUERIES / 2],
                                                     std::uint32_t (&a)[QUERIES / 16][4]) {
#pragma unroll
    for (int i = 0; i < QUERIES / 4; ++i) a[i / 4][i % 4] = pack<F16>(s[i * 2], s[i * 2 + 1]);
  }
};

/// A block's shared memory, with barriers at BARRIERS, and two numbers of work at NUMBERS.
template <int BARRIERS, int NUMBERS, int STAGES = 1>
struct SharedStages {
  char* memory;
  std::uint32_t at;
  __device__ std::uint32_t barrier(int which, std::uint32_t stage = 0) const {
    return at + BARRIERS + (which + stage) * 8;
  }
  /// Waits until a stage is full, or until it is empty again, the n-th time that it is used.
  __device__ void wait_full(int which, std::uint32_t n, int stages = STAGES) const {
    barrier_wait(barrier(which, n % stages), n / stages & 1);
  }
  __device__ void wait_empty(int which, std::uint32_t n, int stages = STAGES) const {
    if (n >= static_cast<std::uint32_t>(stages)) barrier_wait(barrier(which, n % stages), (n / stages - 1) & 1);
  }
  __device__ volatile std::uint32_t& number(std::uint32_t n) const {
    return reinterpret_cast<volatile std::uint32_t*>(memory + NUMBERS)[n % 2];
  }
};

}  // namespace hopper
