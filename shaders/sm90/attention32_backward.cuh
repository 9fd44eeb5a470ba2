#pragma once
// Gradients of f32 attention on warpgroup matrix units: five products a pair of tiles, each of six of bf16 parts. The
// matrix units bound it.
//
// A block owns 64 keys, which it splits itself, and goes through the queries, 64 at a time, of all heads that share the
// keys. One warpgroup computes the weights (transposed scores: keys by queries) and the gradient of values; it hands
// the weights to the other one, which computes their gradients, and from these the gradients of keys and queries. So
// both always have products to wait for, and softmax and splitting of one hide behind the products of the other.
// Weights and gradients of scores are operands in registers. For heads up to 64, so are the parts of keys and values:
// then products read half as much of shared memory, and there is room for two stages of queries. Beyond, only high
// parts are, and sums of dq lie where the gradients of scores were.
//
// The gradient of queries is added up in memory, by the copy engine, as in attention_backward.cuh: blocks of a head
// take turns for each tile of queries, in the order of descending keys. Sums of one pair of tiles leave the matrix
// units, which truncate, and are added in f32. What does not split is dealt with as in attention32.cuh; unsplit[1] also
// tells of gradients of scores that are too large.
#include "attention32.cuh"
#include "attention_pairs.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin_f32.cpp.
struct AttentionGradient32Parameters {
  TensorMap q, dy;  ///< [parts * batch, heads, rows, size]
  const float *k, *v;
  const float2* rows;    ///< [batch, heads, tiles · 64]: logsumexp in units of log 2; Σ y · dy
  float* dq;             ///< sums: blocks of 64 x 64, each in the order of a warpgroup's sums
  std::uint32_t* turns;  ///< [batch, heads, tiles], then how many blocks have begun; 0 at first
  float *dk, *dv;
  std::uint32_t* unsplit;
  std::uint32_t batch, heads, heads_a_group, queries, keys, size;
  std::uint32_t kv_strides[3], gradient_strides[3];  ///< batch, head, row; of k and v, of dk and dv
  float scale, log2_scale;
  std::uint32_t tiles, key_tiles;
};

/// Head sizes up to SIZE, 64 or 128.
template <bool CAUSAL, int SIZE>
struct AttentionBackward32 : AttentionPairs<false, CAUSAL, 64, 64, AttentionGradient32Parameters> {
  using Parameters = AttentionGradient32Parameters;
  using Pairs = AttentionPairs<false, CAUSAL, 64, 64, AttentionGradient32Parameters>;
  using Pairs::work_count, Pairs::turn_of, Pairs::hide;
  using typename Pairs::Work;
  static constexpr int kTile = 64, kThreads = 384, kColumns = SIZE / 64;
  static constexpr int kInRegisters = SIZE == 64 ? kParts : 1;  ///< how many parts of keys and values
  static constexpr bool kOneRegion = SIZE > 64;                 ///< for gradients of scores and sums of dq
  static constexpr int kStages = kOneRegion ? 1 : 2;            ///< of keys, queries and gradients of results
  static constexpr int kSumStages = kOneRegion ? 1 : 2;         ///< each with a thread that adds, which mostly waits
  static constexpr int kBytes = kColumns * kUnitBytes, kWeightBytes = 64 * 64 * 4, kSumBytes = 64 * SIZE * 4,
                       kRowBytes = kTile * 8;
  static constexpr int kGradientsAt = kStages * kBytes, kKeysAt = 2 * kStages * kBytes,
                       kValuesAt = kKeysAt + kStages * kBytes,
                       kScoresAt = kValuesAt + (kParts - kInRegisters) * kColumns * kBoxBytes,
                       kSumsAt = kOneRegion ? kScoresAt : kScoresAt + kUnitBytes,
                       kWeightsAt = kSumsAt + kSumStages * kSumBytes, kRowsAt = kWeightsAt + kWeightBytes,
                       kBarriers = kRowsAt + kStages * kRowBytes;
  static_assert(!kOneRegion || kSumBytes >= kUnitBytes, "sums are the largest in the region");

  enum Barrier {
    kNumbersFull,
    kNumbersEmpty = kNumbersFull + 2,
    kKeysFull = kNumbersEmpty + 2,
    kKeysEmpty = kKeysFull + kStages,
    kQueriesFull = kKeysEmpty + kStages,
    kQueriesEmpty = kQueriesFull + kStages,
    kGradientsFull = kQueriesEmpty + kStages,
    kGradientsEmpty = kGradientsFull + kStages,
    kWeightsFull = kGradientsEmpty + kStages,
    kWeightsEmpty,
    kSumsFull,
    kSumsEmpty = kSumsFull + kSumStages,
    kBarrierCount = kSumsEmpty + kSumStages
  };
  static constexpr int kNumbersAt = kBarriers + kBarrierCount * 8, kSharedBytes = kNumbersAt + 8;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");

  struct Shared : SharedStages<kBarriers, kNumbersAt, kStages> {
    using Stages = SharedStages<kBarriers, kNumbersAt, kStages>;
    using Stages::at, Stages::memory;
    __device__ std::uint32_t queries(std::uint32_t it) const { return at + it % kStages * kBytes; }
    __device__ std::uint32_t gradients(std::uint32_t it) const { return at + kGradientsAt + it % kStages * kBytes; }
    __device__ std::uint32_t keys(std::uint32_t n) const { return at + kKeysAt + n % kStages * kBytes; }
    __device__ const float4* rows(std::uint32_t it) const {
      return reinterpret_cast<const float4*>(memory + kRowsAt + it % kStages * kRowBytes);
    }
    /// A thread's share of the weights, and of sums of dq, in steps of 128.
    __device__ float4* weights() const { return reinterpret_cast<float4*>(memory + kWeightsAt) + (threadIdx.x & 127); }
    __device__ float4* sums(std::uint32_t it) const {
      return reinterpret_cast<float4*>(memory + kSumsAt + it % kSumStages * kSumBytes) + (threadIdx.x & 127);
    }
  };
  static __device__ __forceinline__ Work work_at(const Parameters& p, std::uint32_t i) {
    Work w = Pairs::work_at(p, i);
    if constexpr (CAUSAL) w.first = w.tile;  // for the compiler, which cannot tell that products do not wrap
    return w;
  }
  static constexpr float kTooLarge = 1152921504606846976.f;  ///< as in outside()

  /// 64 x 64 of a part.
  static __device__ __forceinline__ std::uint32_t box(std::uint32_t at, int part, int column = 0) {
    return at + (part * kColumns + column) * kBoxBytes;
  }
  /// The number of this block's n-th piece of work, once load() knows it; from work_count() on there is none.
  static __device__ __forceinline__ std::uint32_t number_of(std::uint32_t n, const Shared& shared) {
    shared.wait_full(kNumbersFull, n, 2);
    const std::uint32_t number = shared.number(n);
    barrier_arrive(shared.barrier(kNumbersEmpty, n % 2));
    return number;
  }

  static __device__ __forceinline__ void fetch(std::uint32_t to, const Parameters& p, const TensorMap& map,
                                               std::uint32_t row, std::uint32_t head, std::uint32_t batch,
                                               std::uint32_t barrier) {
    for (int part = 0; part < kParts; ++part) {
      for (int c = 0; c < kColumns; ++c)
        copy_box(box(to, part, c), map, c * 64, row, head, part * p.batch + batch, barrier);
    }
  }
  static __device__ __forceinline__ void load(const Parameters& p, const Shared& shared) {
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      shared.wait_empty(kNumbersEmpty, n, 2);
      const std::uint32_t number = Pairs::next_work(p);
      shared.number(n) = number;
      barrier_arrive(shared.barrier(kNumbersFull, n % 2));
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        const std::uint32_t head = w.group * p.heads_a_group + h;
        const float2* rows = p.rows + (static_cast<std::size_t>(w.batch) * p.heads + head) * p.tiles * kTile;
        for (std::uint32_t t = w.first; t < p.tiles; ++t, ++it) {
          const std::uint32_t stage = it % kStages, queries = shared.barrier(kQueriesFull, stage),
                              gradients = shared.barrier(kGradientsFull, stage);
          shared.wait_empty(kGradientsEmpty, it);
          barrier_expect(gradients, kBytes);
          fetch(shared.gradients(it), p, p.dy, t * kTile, head, w.batch, gradients);
          shared.wait_empty(kQueriesEmpty, it);
          barrier_expect(queries, kBytes + kRowBytes);
          fetch(shared.queries(it), p, p.q, t * kTile, head, w.batch, queries);
          copy_bytes(shared.at + kRowsAt + stage * kRowBytes, rows + t * kTile, kRowBytes, queries);
        }
      }
    }
  }

  /// Adds the sums of dq of one stage to those in memory when it is this block's turn.
  static __device__ __forceinline__ void add_sums(const Parameters& p, const Shared& shared, std::uint32_t stage) {
    const std::uint32_t from = shared.at + kSumsAt + stage * kSumBytes;
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        const std::size_t head = static_cast<std::size_t>(w.batch) * p.heads + w.group * p.heads_a_group + h;
        for (std::uint32_t t = w.first; t < p.tiles; ++t, ++it) {
          if (it % kSumStages != stage) continue;
          const std::size_t tile = head * p.tiles + t;
          const std::uint32_t turn = turn_of(p, t, w);
          wait_until(p.turns + tile, turn);
          shared.wait_full(kSumsFull, it, kSumStages);
          float* to = p.dq + tile * (kSumBytes / 4);
          if (turn == 0)
            store_bytes(to, from, kSumBytes);
          else
            add_floats(to, from, kSumBytes);
          stored_reads();
          barrier_arrive(shared.barrier(kSumsEmpty, stage));
          stored_all();
          set_release(p.turns + tile, turn + 1);
        }
      }
    }
  }

  /// This block's keys or values: parts of a thread's share in registers, and those from FIRST on in shared memory. All
  /// warps have to meet before it is read. @param ready waits until it may be written
  template <int FIRST, typename Ready>
  static __device__ __forceinline__ void split_own(const Parameters& p, const Work& w, const float* from,
                                                   std::uint32_t (&a)[kParts][SIZE / 16][4], std::uint32_t to,
                                                   const Ready& ready) {
    float x[SIZE / 2];
    load_floats<SIZE>(x, head_at(from, p.kv_strides, w.batch, w.group), p.kv_strides[2],
                      w.tile * kTile + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7), p.keys, p.size);
    if (any_outside(x)) p.unsplit[1] = 1;
    split_rows(x, a);
    if constexpr (FIRST < kParts) {
      ready();
      store_parts<FIRST>(to, a);
      fence_async();
    }
  }

  /// s = own (keys or values) · passing (queries or gradients of results), over the head.
  static __device__ __forceinline__ void multiply(float (&s)[32], const std::uint32_t (&a)[kParts][SIZE / 16][4],
                                                  std::uint32_t own, std::uint32_t passing) {
    float sums[kColumns][32];
    product_fence();
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      multiply_parts<4>([&](int of_a, int of_b, int i, bool add) {
        const std::uint64_t b = along<64>(box(passing, of_b, c), i);
        if (of_a < kInRegisters)
          wgmma(sums[c], a[of_a][c * 4 + i], b, add);
        else
          wgmma<false, false, false>(sums[c], along<64>(box(own, of_a, c), i), b, add);
      });
    }
    product_commit();
    product_wait<0>();
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = kColumns > 1 ? sums[0][i] + sums[kColumns - 1][i] : sums[0][i];
  }
  /// Issues sums = a · passing, over 64 rows of what passes.
  static __device__ __forceinline__ void issue(float (&sums)[SIZE / 2], const std::uint32_t (&a)[kParts][4][4],
                                               std::uint32_t passing) {
    product_fence();
    multiply_parts<4>([&](int of_a, int of_b, int i, bool add) {
      wgmma<false, true>(sums, a[of_a][i], across<64>(box(passing, of_b), i), add);
    });
    product_commit();
  }
  static __device__ __forceinline__ void add(float (&to)[SIZE / 2], const float (&sums)[SIZE / 2]) {
#pragma unroll
    for (int i = 0; i < SIZE / 2; ++i) to[i] += sums[i];
  }
  static __device__ __forceinline__ void store(const Parameters& p, const Work& w, float* to,
                                               const float (&x)[SIZE / 2], float factor) {
    store_floats<SIZE>(head_at(to, p.gradient_strides, w.batch, w.group), p.gradient_strides[2],
                       w.tile * kTile + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7), p.keys, p.size, x,
                       {factor, factor});
  }

  /// Weights to the other warpgroup.
  static __device__ __forceinline__ void hand_over(const Shared& shared, const float (&s)[32], std::uint32_t it) {
    shared.wait_empty(kWeightsEmpty, it, 1);
    float4* to = shared.weights();
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i * 128] = make_float4(s[i * 4], s[i * 4 + 1], s[i * 4 + 2], s[i * 4 + 3]);
    barrier_arrive(shared.barrier(kWeightsFull));
  }

  /// The first warpgroup: weights and the gradient of values.
  static __device__ __forceinline__ void weigh(const Parameters& p, const Shared& shared) {
    const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const bool speaker = (threadIdx.x & 127) == 0;
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      std::uint32_t k[kParts][SIZE / 16][4];
      split_own<0>(p, w, p.k, k, shared.keys(n), [&] { shared.wait_empty(kKeysEmpty, n); });
      barrier_arrive(shared.barrier(kKeysFull, n % kStages));
      if constexpr (kInRegisters < kParts) sync_threads(1, 128);
      float dv[SIZE / 2];
#pragma unroll
      for (int i = 0; i < SIZE / 2; ++i) dv[i] = 0;
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        for (std::uint32_t t = w.first; t < p.tiles; ++t, ++it) {
          float s[32], sums[SIZE / 2];
          shared.wait_full(kQueriesFull, it);
          multiply(s, k, shared.keys(n), shared.queries(it));
          Pairs::weights(s, shared.rows(it), p, p.log2_scale);
          // The other warpgroup gives them back, too, and only once it has all weights.
          if (speaker) barrier_arrive(shared.barrier(kQueriesEmpty, it % kStages));
          if ((CAUSAL && t == w.tile) || (w.tile + 1) * kTile > p.keys || (t + 1) * kTile > p.queries)
            hide(s, p, w.batch, t * kTile + (lane & 3) * 2, w.tile * kTile + warp * 16 + (lane >> 2));
          std::uint32_t a[kParts][4][4];
          split_rows(s, a);
          hand_over(shared, s, it);
          shared.wait_full(kGradientsFull, it);
          issue(sums, a, shared.gradients(it));
          product_wait<0>();
          if (speaker) barrier_arrive(shared.barrier(kGradientsEmpty, it % kStages));
          add(dv, sums);
        }
      }
      store(p, w, p.dv, dv, 1);
    }
  }

  /// The second: gradients of weights, of keys and of queries.
  static __device__ __forceinline__ void derive(const Parameters& p, const Shared& shared) {
    const bool speaker = (threadIdx.x & 127) == 0;
    const std::uint32_t scores = shared.at + kScoresAt, values = shared.at + kValuesAt;
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      std::uint32_t v[kParts][SIZE / 16][4];
      split_own<kInRegisters>(p, w, p.v, v, values, [] { sync_threads(2, 128); });
      if constexpr (kInRegisters < kParts) sync_threads(2, 128);
      shared.wait_full(kKeysFull, n);
      float dk[SIZE / 2];
#pragma unroll
      for (int i = 0; i < SIZE / 2; ++i) dk[i] = 0;
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        for (std::uint32_t t = w.first; t < p.tiles; ++t, ++it) {
          float ds[32], sums[SIZE / 2], dq[SIZE / 2];
          shared.wait_full(kGradientsFull, it);
          multiply(ds, v, values - kInRegisters * kColumns * kBoxBytes, shared.gradients(it));
          if (speaker) barrier_arrive(shared.barrier(kGradientsEmpty, it % kStages));
          shared.wait_full(kQueriesFull, it);
          shared.wait_full(kWeightsFull, it, 1);
          const float4* from = shared.weights();
          const float4* rows = shared.rows(it) + (threadIdx.x & 3);
#pragma unroll
          for (int i = 0; i < 32; i += 4) {
            const float4 weight = from[i * 32], two = rows[i];
            ds[i] = weight.x * (ds[i] - two.y), ds[i + 1] = weight.y * (ds[i + 1] - two.w);
            ds[i + 2] = weight.z * (ds[i + 2] - two.y), ds[i + 3] = weight.w * (ds[i + 3] - two.w);
          }
          barrier_arrive(shared.barrier(kWeightsEmpty));
          float largest = 0;
#pragma unroll
          for (int i = 0; i < 32; ++i) largest = fmaxf(largest, fabsf(ds[i]));
          if (!(largest < kTooLarge)) p.unsplit[1] = 1;
          std::uint32_t a[kParts][4][4];
          split_rows(ds, a);
          if constexpr (kOneRegion) shared.wait_empty(kSumsEmpty, it, kSumStages);
          // All warps have multiplied the last scores.
          sync_threads(2, 128);
          store_parts<0>(scores, a);
          fence_async();
          sync_threads(2, 128);

          const auto end_queries = [&] {
            product_wait<SIZE <= 64 ? 1 : 0>();
            if (speaker) barrier_arrive(shared.barrier(kQueriesEmpty, it % kStages));
            add(dk, sums);
          };
          issue(sums, a, shared.queries(it));
          // Registers have room for the sums of one or of both.
          if constexpr (SIZE > 64) end_queries();
          product_fence();
          multiply_parts<4>([&](int of_a, int of_b, int i, bool add) {
            wgmma<false, true, true>(dq, across<64>(scores + of_a * kBoxBytes, i),
                                     across<64>(box(shared.keys(n), of_b), i), add);
          });
          product_commit();
          if constexpr (SIZE <= 64) end_queries();
          product_wait<0>();
          if constexpr (kOneRegion)
            sync_threads(2, 128);
          else
            shared.wait_empty(kSumsEmpty, it, kSumStages);
          float4* to = shared.sums(it);
#pragma unroll
          for (int i = 0; i < SIZE / 8; ++i)
            to[i * 128] = make_float4(dq[i * 4], dq[i * 4 + 1], dq[i * 4 + 2], dq[i * 4 + 3]);
          fence_async();
          barrier_arrive(shared.barrier(kSumsFull, it % kSumStages));
        }
      }
      // All warps have seen the keys full.
      sync_threads(2, 128);
      if (speaker) barrier_arrive(shared.barrier(kKeysEmpty, n % kStages));
      store(p, w, p.dk, dk, p.scale);
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p, char* memory) {
    if (p.unsplit[0] != 0) return;
    const Shared shared{{memory, shared_address(memory)}};
    if (threadIdx.x == 0) {
      const auto init = [&](int which, int stages, int arrivals) {
        for (int i = 0; i < stages; ++i) barrier_init(shared.barrier(which, i), arrivals);
      };
      init(kNumbersFull, 2, 1), init(kNumbersEmpty, 2, 256 + kSumStages);
      init(kKeysFull, kStages, 128), init(kKeysEmpty, kStages, 1);
      init(kQueriesFull, kStages, 1), init(kQueriesEmpty, kStages, 2);
      init(kGradientsFull, kStages, 1), init(kGradientsEmpty, kStages, 2);
      init(kWeightsFull, 1, 128), init(kWeightsEmpty, 1, 128);
      init(kSumsFull, kSumStages, 128), init(kSumsEmpty, kSumStages, 1);
      barrier_init_done();
    }
    __syncthreads();
    // The same in all lanes, as the compiler can see: products may not be in branches that diverge.
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 7), 0);
    if (group == 0) {
      give_registers<24>();
      if (threadIdx.x == 0) load(p, shared);
      const std::uint32_t warp = threadIdx.x >> 5;
      if (threadIdx.x % 32 == 0 && warp > 0 && warp <= kSumStages) add_sums(p, shared, warp - 1);
    } else {
      take_registers<240>();
      if (group == 1) {
        weigh(p, shared);
      } else {
        derive(p, shared);
      }
    }
  }
};

/// Behind: sums of dq to results. A block a block of 64 x 64.
struct AttentionSum32Parameters {
  const float* sums;
  float* dq;
  std::uint32_t heads, queries, size, blocks_a_head, columns;
  std::uint32_t strides[3];  ///< batch, head, row
  float scale;
};

__device__ __forceinline__ void attention_sums(const AttentionSum32Parameters& p) {
  const std::uint32_t head = blockIdx.x / p.blocks_a_head, block = blockIdx.x - head * p.blocks_a_head,
                      batch = head / p.heads, column = block % p.columns * 64;
  const float4* sums =
      reinterpret_cast<const float4*>(p.sums) + static_cast<std::size_t>(blockIdx.x) * 1024 + threadIdx.x;
  float x[32];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 four = sums[i * 128];
    x[i * 4] = four.x, x[i * 4 + 1] = four.y, x[i * 4 + 2] = four.z, x[i * 4 + 3] = four.w;
  }
  store_floats<64>(head_at(p.dq, p.strides, batch, head - batch * p.heads) + column, p.strides[2],
                   block / p.columns * 64 + (threadIdx.x >> 5) * 16 + (threadIdx.x >> 2 & 7), p.queries,
                   p.size - column, x, {p.scale, p.scale});
}

}  // namespace hopper
