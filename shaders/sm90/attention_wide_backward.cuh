#pragma once
// Gradients of attention of heads beyond 128, f16 and bf16: five products a pair of tiles. Shared memory bounds them,
// and adds to gradients of queries: 64 KiB a pair of 256 columns, 2.2 us if all of an H200's multiprocessors add.
//
// A block owns 64 keys, as many as registers have room for with the sums of two gradients, and goes through the
// queries, 64 at a time, of all heads that share the keys. One warpgroup computes weights (transposed scores: keys by
// queries), a pair ahead, and the gradient of values; it hands the weights to the other one, which computes gradients
// of scores and from these the gradient of keys. So softmax hides behind the products of the other. Each multiplies
// half of the gradient of queries, which is added up in memory as in attention_backward.cuh; turns count for each half.
//
// Backward on an H200, bf16, causal, ms of B4 H8 T4096 D256 and of B4 H16 T4096 with keys of 192 and values of 128. One
// call: work of one head after the other 2.01 and 3.24, of 2, 4, 8 heads in turns 1.96, 1.91, 2.47 and 3.13, 3.12, 3.23
// (D256 without a triangle 4.26, 3.85, 3.67, 3.79); with keys as operands in registers, which halves what scores read
// of shared memory, 1.95 and 2.81, as a thread added for each half. Another one: three threads in turns 1.90 and 2.67,
// without adds 1.49 and 2.14. Values in registers, too, gained nothing (2.68).
#include "attention.cuh"
#include "attention_pairs.cuh"

namespace hopper {

/// Heads up to SIZE, those of values up to VALUES.
template <bool F16, bool CAUSAL, int SIZE, int VALUES, typename Parameters = AttentionGradientParameters>
struct AttentionWideBackward : AttentionPairs<F16, CAUSAL, 64, 64, Parameters, 4> {
  using Pairs = AttentionPairs<F16, CAUSAL, 64, 64, Parameters, 4>;
  using Pairs::kMasked, Pairs::work_at, Pairs::work_count, Pairs::past_of, Pairs::turn_of, Pairs::hide,
      Pairs::is_partial;
  using typename Pairs::Work;
  static constexpr int kKeys = 64, kThreads = 384, kTurns = 2;
  static constexpr int kColumns = SIZE / 64, kValueColumns = VALUES / 64;
  static constexpr int kQueryStages = 2, kGradientStages = SIZE > 192 ? 1 : 2;  ///< as many as there is room for
  /// Whether there are registers for keys as operands, and for a product in flight while others' sums are stored.
  static constexpr bool kKeysInRegisters = SIZE <= 192, kEarly = SIZE <= 192;
  static constexpr int kSumStages = 2, kSumColumns = SIZE > 192 ? 32 : 64;  ///< of each warpgroup; columns of a stage
  static constexpr int kBoxBytes = 64 * 128, kSumBytes = 64 * kSumColumns * 4, kRowBytes = 64 * 8;
  static constexpr int kWeightBytes = 64 * 64 * 4 / 4;  ///< of a warp
  static constexpr int kQueryBytes = kColumns * kBoxBytes, kValueBytes = kValueColumns * kBoxBytes;
  static constexpr int kValuesAt = kQueryBytes, kQueriesAt = kValuesAt + kValueBytes,
                       kGradientsAt = kQueriesAt + kQueryStages * kQueryBytes,
                       kScoresAt = kGradientsAt + kGradientStages * kValueBytes, kWeightsAt = kScoresAt + kBoxBytes,
                       kSumsAt = kWeightsAt + 4 * kWeightBytes, kRowsAt = kSumsAt + 2 * kSumStages * kSumBytes,
                       kBarriers = kRowsAt + kQueryStages * kRowBytes;

  /// Which barrier; those of sums are first the stages of one warpgroup, then those of the other one.
  enum Barrier {
    kNumbersFull,
    kNumbersEmpty = kNumbersFull + 2,
    kKeysFull = kNumbersEmpty + 2,
    kKeysEmpty,
    kValuesFull,
    kValuesEmpty,
    kWeightsFull,
    kWeightsEmpty,
    kScoresFull,
    kScoresEmpty,
    kPairAdded,
    kQueriesFull = kPairAdded + 4,
    kQueriesEmpty = kQueriesFull + kQueryStages,
    kGradientsFull = kQueriesEmpty + kQueryStages,
    kGradientsEmpty = kGradientsFull + kGradientStages,
    kSumsFull = kGradientsEmpty + kGradientStages,
    kSumsEmpty = kSumsFull + 2 * kSumStages,
    kBarrierCount = kSumsEmpty + 2 * kSumStages
  };
  static constexpr int kNumbersAt = kBarriers + kBarrierCount * 8, kSharedBytes = kNumbersAt + 8;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");

  struct Shared : SharedStages<kBarriers, kNumbersAt> {
    using Stages = SharedStages<kBarriers, kNumbersAt>;
    using Stages::at, Stages::memory;
    __device__ std::uint32_t keys() const { return at; }
    __device__ std::uint32_t values() const { return at + kValuesAt; }
    __device__ std::uint32_t scores() const { return at + kScoresAt; }
    __device__ std::uint32_t queries(std::uint32_t it) const {
      return at + kQueriesAt + it % kQueryStages * kQueryBytes;
    }
    __device__ std::uint32_t gradients(std::uint32_t it) const {
      return at + kGradientsAt + it % kGradientStages * kValueBytes;
    }
    __device__ const float4* rows(std::uint32_t it) const {
      return reinterpret_cast<const float4*>(memory + kRowsAt + it % kQueryStages * kRowBytes);
    }
    /// A warp's share of the weights, the same of both warpgroups.
    __device__ char* weights() const { return memory + kWeightsAt + (threadIdx.x >> 5 & 3) * kWeightBytes; }
    __device__ std::uint32_t sums_at(int group, std::uint32_t piece) const {
      return kSumsAt + (group * kSumStages + piece % kSumStages) * kSumBytes;
    }
  };

  /// A warpgroup's columns of the gradient of queries, in boxes of 64.
  template <int GROUP>
  static constexpr int kBoxes = (kColumns + 1 - GROUP) / 2;
  template <int GROUP>
  static constexpr int kFirstBox = GROUP == 0 ? 0 : kBoxes<0>;
  /// How many stages' worth of sums they are.
  template <int GROUP>
  static constexpr int kPieces = kBoxes<GROUP> * 64 / kSumColumns;

  static __device__ __forceinline__ std::uint32_t number_of(std::uint32_t n, const Shared& shared) {
    shared.wait_full(kNumbersFull, n, 2);
    const std::uint32_t number = shared.number(n);
    barrier_arrive(shared.barrier(kNumbersEmpty, n % 2));
    return number;
  }
  /// How many tiles of queries, of all heads that share the keys.
  static __device__ __forceinline__ std::uint32_t pair_count(const Parameters& p, const Work& w) {
    const std::uint32_t past = past_of(p, w);
    return past > w.first ? (past - w.first) * p.heads_a_group : 0;
  }
  /// Moves on to the next pair. @param h, t: which of the heads that share the keys, and tile of its queries
  static __device__ __forceinline__ void advance(const Parameters& p, const Work& w, std::uint32_t& h,
                                                 std::uint32_t& t) {
    if (++t == past_of(p, w)) t = w.first, ++h;
  }

  template <int COLUMNS>
  static __device__ __forceinline__ void fetch(std::uint32_t to, const TensorMap& map, std::uint32_t row,
                                               std::uint32_t head, std::uint32_t batch, std::uint32_t barrier) {
    for (int c = 0; c < COLUMNS; ++c) copy_box(to + c * kBoxBytes, map, c * 64, row, head, batch, barrier);
  }
  static __device__ __forceinline__ void load(const Parameters& p, const Shared& shared) {
    std::uint32_t it = 0, loads = 0;
    for (std::uint32_t n = 0;; ++n) {
      shared.wait_empty(kNumbersEmpty, n, 2);
      const std::uint32_t number = Pairs::next_work(p, kTurns);
      shared.number(n) = number;
      barrier_arrive(shared.barrier(kNumbersFull, n % 2));
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      const std::uint32_t pairs = pair_count(p, w);
      for (std::uint32_t i = 0, h = 0, t = w.first; i < pairs; ++i, ++it, advance(p, w, h, t)) {
        const std::uint32_t head = w.group * p.heads_a_group + h;
        const float2* rows = p.rows + ((static_cast<std::size_t>(w.batch) * p.heads + head) * p.tiles + t) * 64;
        const std::uint32_t queries = shared.barrier(kQueriesFull, it % kQueryStages),
                            gradients = shared.barrier(kGradientsFull, it % kGradientStages);
        shared.wait_empty(kQueriesEmpty, it, kQueryStages);
        barrier_expect(queries, kQueryBytes + kRowBytes);
        fetch<kColumns>(shared.queries(it), p.q, t * 64, head, w.batch, queries);
        copy_bytes(shared.at + kRowsAt + it % kQueryStages * kRowBytes, rows, kRowBytes, queries);
        if (i == 0) {
          shared.wait_empty(kValuesEmpty, loads);
          barrier_expect(shared.barrier(kValuesFull), kValueBytes);
          fetch<kValueColumns>(shared.values(), p.v, w.tile * 64, w.group, w.batch, shared.barrier(kValuesFull));
          shared.wait_empty(kKeysEmpty, loads++);
          barrier_expect(shared.barrier(kKeysFull), kQueryBytes);
          fetch<kColumns>(shared.keys(), p.k, w.tile * 64, w.group, w.batch, shared.barrier(kKeysFull));
        }
        shared.wait_empty(kGradientsEmpty, it, kGradientStages);
        barrier_expect(gradients, kValueBytes);
        fetch<kValueColumns>(shared.gradients(it), p.dy, t * 64, head, w.batch, gradients);
      }
    }
  }

  /// Adds a warpgroup's sums of a pair to those in memory when it is this block's turn.
  template <int GROUP>
  static __device__ __forceinline__ void add_sums(const Parameters& p, const Shared& shared, std::size_t tile,
                                                  std::uint32_t turn, std::uint32_t it) {
    float* to = p.dq + tile * (64 * SIZE) + kFirstBox<GROUP> * 64 * 64;
    std::uint32_t* word = p.turns + tile * kTurns + GROUP;
    wait_until(word, turn);
    // Stages are used again: those of the pair before, which another thread adds, must have been full.
    if (it > 0) shared.wait_full(kPairAdded + GROUP * 2, it - 1, 2);
    constexpr int pieces = kPieces<GROUP>, at_once = pieces < kSumStages ? pieces : kSumStages;
    for (int some = 0; some < pieces; some += at_once) {
      for (int j = some; j < some + at_once; ++j) {
        const std::uint32_t piece = it * pieces + j, from = shared.at + shared.sums_at(GROUP, piece);
        shared.wait_full(kSumsFull + GROUP * kSumStages, piece, kSumStages);
        if (turn == 0)
          store_bytes(to + j * (kSumBytes / 4), from, kSumBytes);
        else
          add_floats(to + j * (kSumBytes / 4), from, kSumBytes);
      }
      if (some + at_once == pieces) barrier_arrive(shared.barrier(kPairAdded + GROUP * 2, it % 2));
      stored_reads();
      for (int j = some; j < some + at_once; ++j)
        barrier_arrive(shared.barrier(kSumsEmpty + GROUP * kSumStages, (it * pieces + j) % kSumStages));
    }
    stored_all();
    set_release(word, turn + 1);
  }
  /// One of three threads that do so in turns: while one waits until sums are in memory, others go on.
  static __device__ __forceinline__ void add_sums(const Parameters& p, const Shared& shared, std::uint32_t thread) {
    std::uint32_t it = 0, next = thread;  // of the two warpgroups' sums of all pairs
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      const std::uint32_t pairs = pair_count(p, w);
      for (std::uint32_t i = 0, h = 0, t = w.first; i < pairs; ++i, ++it, advance(p, w, h, t)) {
        const std::size_t tile =
            (static_cast<std::size_t>(w.batch) * p.heads + w.group * p.heads_a_group + h) * p.tiles + t;
        const std::uint32_t turn = turn_of(p, t, w);
        if (next == 2 * it) add_sums<0>(p, shared, tile, turn, it), next += 3;
        if (next == 2 * it + 1) add_sums<1>(p, shared, tile, turn, it), next += 3;
      }
    }
  }

  /// A warpgroup's columns of dq = gradients of scores · keys. @param next issues PENDING more products behind
  /// @param end is called when gradients of scores and keys have been read @param piece counts what add_sums() gets
  template <int GROUP, int PENDING, typename Next, typename End>
  static __device__ __forceinline__ void derive_queries(const Shared& shared, std::uint32_t& piece, const Next& next,
                                                        const End& end) {
#pragma unroll
    for (int b = 0; b < kBoxes<GROUP>; ++b) {
      float dq[32];
      product_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        wgmma<F16, true, true>(dq, across<64>(shared.scores(), i),
                               across<64>(shared.keys() + (kFirstBox<GROUP> + b) * kBoxBytes, i), i > 0);
      product_commit();
      if (b + 1 == kBoxes<GROUP>) {
        next();
        product_wait<PENDING>();
        end();
      } else {
        product_wait<0>();
      }
#pragma unroll
      for (int j = 0; j < 64 / kSumColumns; ++j, ++piece) {
        shared.wait_empty(kSumsEmpty + GROUP * kSumStages, piece, kSumStages);
        float4* to = reinterpret_cast<float4*>(shared.memory + shared.sums_at(GROUP, piece)) + (threadIdx.x & 127);
#pragma unroll
        for (int i = 0; i < kSumColumns / 8; ++i) {
          const float* x = dq + j * (kSumColumns / 2) + i * 4;
          to[i * 128] = make_float4(x[0], x[1], x[2], x[3]);
        }
        fence_async();
        barrier_arrive(shared.barrier(kSumsFull + GROUP * kSumStages, piece % kSumStages));
      }
    }
  }

  /// Stores a warpgroup's sums of 64 keys. @param scratch 2 KiB of this warp
  template <int COLUMNS>
  static __device__ __forceinline__ void store(const Parameters& p, const Work& w, std::uint16_t* to,
                                               const std::uint32_t (&strides)[3], std::uint32_t size,
                                               const float (&x)[COLUMNS * 32], float factor, char* scratch) {
    to += static_cast<std::size_t>(w.batch) * strides[0] + static_cast<std::size_t>(w.group) * strides[1];
#pragma unroll
    for (std::uint32_t c = 0; c < COLUMNS; ++c) {
      float columns[32];
#pragma unroll
      for (std::uint32_t i = 0; i < 32; ++i) columns[i] = x[c * 32 + i];
      if (size > c * 64)
        store_rows<F16, 64>(
            [&](std::uint32_t key) { return to + c * 64 + static_cast<std::size_t>(key) * strides[2]; },
            w.tile * 64 + (threadIdx.x >> 5 & 3) * 16, p.keys, size - c * 64, columns, {factor, factor}, scratch);
    }
    __syncwarp();
  }
  /// Where a warp's 16 rows have their k-th 16 columns in a box, for instructions that move four matrices.
  static __device__ __forceinline__ std::uint32_t part_of(std::uint32_t box, int k) {
    const std::uint32_t lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15);
    return box + row * 128 + ((k * 2 + (lane >> 4)) ^ (row & 7)) * 16;
  }
  static __device__ __forceinline__ std::uint32_t first_key_of(const Work& w) {
    return w.tile * 64 + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
  }

  using Keys = std::uint32_t[kKeysInRegisters ? SIZE / 16 : 1][4];
  static __device__ __forceinline__ void read_keys(Keys& k, const Shared& shared) {
    if constexpr (kKeysInRegisters) {
#pragma unroll
      for (int i = 0; i < SIZE / 16; ++i) load_matrices(k[i], part_of(shared.keys() + i / 4 * kBoxBytes, i % 4));
    }
  }
  static __device__ __forceinline__ void issue_scores(float (&s)[32], const Keys& k, const Shared& shared,
                                                      std::uint32_t it) {
    shared.wait_full(kQueriesFull, it, kQueryStages);
    product_fence();
#pragma unroll
    for (int i = 0; i < SIZE / 16; ++i) {
      if constexpr (kKeysInRegisters)
        wgmma<F16>(s, k[i], along<64>(shared.queries(it), i), i > 0);
      else
        wgmma<F16, false, false>(s, along<64>(shared.keys(), i), along<64>(shared.queries(it), i), i > 0);
    }
    product_commit();
  }
  static __device__ __forceinline__ void issue_values(float (&dv)[VALUES / 2], const std::uint32_t (&a)[4][4],
                                                      const Shared& shared, std::uint32_t it) {
    shared.wait_full(kGradientsFull, it, kGradientStages);
    product_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) wgmma<F16, true>(dv, a[i], across<64>(shared.gradients(it), i), true);
    product_commit();
  }
  static __device__ __forceinline__ void issue_score_gradients(float (&ds)[32], const Shared& shared,
                                                               std::uint32_t it) {
    shared.wait_full(kGradientsFull, it, kGradientStages);
    product_fence();
#pragma unroll
    for (int i = 0; i < VALUES / 16; ++i)
      wgmma<F16, false, false>(ds, along<64>(shared.values(), i), along<64>(shared.gradients(it), i), i > 0);
    product_commit();
  }
  /// Scores to weights, which also go to the other warpgroup.
  static __device__ __forceinline__ void weigh_pair(float (&s)[32], const Parameters& p, const Shared& shared,
                                                    const Work& w, std::uint32_t h, std::uint32_t t, const Span& seen,
                                                    std::uint32_t it) {
    if constexpr (kMasked)
      Pairs::masked_weights(s, shared.rows(it), p, w, t, w.group * p.heads_a_group + h, first_key_of(w));
    else
      Pairs::weights(s, shared.rows(it), p, p.log2_scale);
    if (is_partial(p, w, t, seen)) hide(s, p, w.batch, t * 64 + (threadIdx.x & 3) * 2, first_key_of(w));
    shared.wait_empty(kWeightsEmpty, it);
    float4* to = reinterpret_cast<float4*>(shared.weights()) + (threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i * 32] = make_float4(s[i * 4], s[i * 4 + 1], s[i * 4 + 2], s[i * 4 + 3]);
    barrier_arrive(shared.barrier(kWeightsFull));
    // The other warpgroup gives them back, too, and only once it has all weights.
    if ((threadIdx.x & 127) == 0) barrier_arrive(shared.barrier(kQueriesEmpty, it % kQueryStages));
  }

  /// The first warpgroup: weights, the gradient of values, and its columns of that of queries.
  static __device__ __forceinline__ void weigh(const Parameters& p, const Shared& shared) {
    const std::uint32_t lane = threadIdx.x & 31;
    const bool speaker = (threadIdx.x & 127) == 0;
    std::uint32_t it = 0, piece = 0, loads = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      const std::uint32_t pairs = pair_count(p, w);
      const Span seen = Pairs::by_all(p, w.batch, w.tile * 64);
      float dv[VALUES / 2];
#pragma unroll
      for (int i = 0; i < VALUES / 2; ++i) dv[i] = 0;
      if (pairs > 0) {
        std::uint32_t h = 0, t = w.first;
        float s[32];
        Keys k;
        shared.wait_full(kKeysFull, loads++);
        read_keys(k, shared);
        issue_scores(s, k, shared, it);
        product_wait<0>();
        weigh_pair(s, p, shared, w, h, t, seen, it);
        std::uint32_t a[4][4];
        Pairs::to_operands(s, a);
        issue_values(dv, a, shared, it);
        const auto go_on = [&](auto more) {
          if constexpr (more.value) issue_scores(s, k, shared, it + 1);
          product_wait<more.value ? 1 : 0>();
          if (speaker) barrier_arrive(shared.barrier(kGradientsEmpty, it % kGradientStages));
          if constexpr (more.value) {
            product_wait<0>();
            advance(p, w, h, t);
            weigh_pair(s, p, shared, w, h, t, seen, it + 1);
            Pairs::to_operands(s, a);
          }
          shared.wait_full(kScoresFull, it);
          derive_queries<0, kEarly && more.value ? 1 : 0>(
              shared, piece,
              [&] {
                if constexpr (kEarly && more.value) issue_values(dv, a, shared, it + 1);
              },
              [&] {
                if (lane == 0) barrier_arrive(shared.barrier(kScoresEmpty));
              });
          if constexpr (!kEarly && more.value) issue_values(dv, a, shared, it + 1);
          ++it;
        };
        for (std::uint32_t i = 1; i < pairs; ++i) go_on(std::true_type());
        go_on(std::false_type());
        if (speaker) barrier_arrive(shared.barrier(kKeysEmpty));
      }
      shared.wait_empty(kWeightsEmpty, it);
      store<kValueColumns>(p, w, p.dv, p.value_strides, p.value_size, dv, 1, shared.weights());
    }
  }

  /// The second: gradients of scores, the gradient of keys, and its columns of that of queries.
  static __device__ __forceinline__ void derive(const Parameters& p, const Shared& shared) {
    const std::uint32_t warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    const bool speaker = (threadIdx.x & 127) == 0;
    std::uint32_t it = 0, piece = 0, loads = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, shared);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      const std::uint32_t pairs = pair_count(p, w);
      const Span seen = Pairs::by_all(p, w.batch, w.tile * 64);
      float dk[SIZE / 2];
#pragma unroll
      for (int i = 0; i < SIZE / 2; ++i) dk[i] = 0;
      if (pairs > 0) {
        shared.wait_full(kValuesFull, loads);
        shared.wait_full(kKeysFull, loads++);
      }
      std::uint32_t h = 0, t = w.first;
      float ds[32];
      if (kEarly && pairs > 0) issue_score_gradients(ds, shared, it);
      const auto go_on = [&](auto more) {
        float weights[32];
        if constexpr (!kEarly) issue_score_gradients(ds, shared, it);
        product_wait<0>();
        if (speaker) {
          barrier_arrive(shared.barrier(kGradientsEmpty, it % kGradientStages));
          if constexpr (!more.value) barrier_arrive(shared.barrier(kValuesEmpty));
        }
        shared.wait_full(kQueriesFull, it, kQueryStages);
        shared.wait_full(kWeightsFull, it);
        const float4* from = reinterpret_cast<const float4*>(shared.weights()) + lane;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float4 x = from[j * 32];
          weights[j * 4] = x.x, weights[j * 4 + 1] = x.y, weights[j * 4 + 2] = x.z, weights[j * 4 + 3] = x.w;
        }
        barrier_arrive(shared.barrier(kWeightsEmpty));
        Pairs::gradients(ds, weights, shared.rows(it), p);
        if (is_partial(p, w, t, seen)) hide(ds, p, w.batch, t * 64 + (lane & 3) * 2, first_key_of(w));
        std::uint32_t a[4][4];
        Pairs::to_operands(ds, a);
        product_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma<F16, true>(dk, a[k], across<64>(shared.queries(it), k), true);
        product_commit();
        // One row per key, as the copy engine would store them.
        shared.wait_empty(kScoresEmpty, it);
#pragma unroll
        for (int k = 0; k < 4; ++k) store_matrices(part_of(shared.scores(), k), a[k]);
        fence_async();
        barrier_arrive(shared.barrier(kScoresFull));
        shared.wait_full(kScoresFull, it);
        derive_queries<1, kEarly && more.value ? 1 : 0>(
            shared, piece,
            [&] {
              if constexpr (kEarly && more.value) issue_score_gradients(ds, shared, it + 1);
            },
            [&] {
              if (lane == 0) barrier_arrive(shared.barrier(kScoresEmpty));
              if (!speaker) return;
              barrier_arrive(shared.barrier(kQueriesEmpty, it % kQueryStages));
              if constexpr (!more.value) barrier_arrive(shared.barrier(kKeysEmpty));
            });
        advance(p, w, h, t), ++it;
      };
      if (pairs > 0) {
        for (std::uint32_t i = 1; i < pairs; ++i) go_on(std::true_type());
        go_on(std::false_type());
      }
      // Where this warp's gradients of the next scores will be.
      shared.wait_empty(kScoresEmpty, it);
      store<kColumns>(p, w, p.dk, p.strides, p.size, dk, p.scale, shared.memory + kScoresAt + warp * 2048);
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p, char* memory) {
    const Shared shared{{memory, shared_address(memory)}};
    if (threadIdx.x == 0) {
      const auto init = [&](int which, int stages, int arrivals) {
        for (int i = 0; i < stages; ++i) barrier_init(shared.barrier(which, i), arrivals);
      };
      init(kNumbersFull, 2, 1), init(kNumbersEmpty, 2, 256 + 3);
      init(kKeysFull, 1, 1), init(kKeysEmpty, 1, 2);
      init(kValuesFull, 1, 1), init(kValuesEmpty, 1, 1);
      init(kWeightsFull, 1, 128), init(kWeightsEmpty, 1, 128);
      init(kScoresFull, 1, 128), init(kScoresEmpty, 1, 8);
      init(kQueriesFull, kQueryStages, 1), init(kQueriesEmpty, kQueryStages, 2);
      init(kGradientsFull, kGradientStages, 1), init(kGradientsEmpty, kGradientStages, 2);
      init(kPairAdded, 4, 1);
      init(kSumsFull, 2 * kSumStages, 128), init(kSumsEmpty, 2 * kSumStages, 1);
      barrier_init_done();
    }
    __syncthreads();
    // The same in all lanes, as the compiler can see: products may not be in branches that diverge.
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 7), 0);
    if (group == 0) {
      give_registers<56>();
      if (threadIdx.x == 0) load(p, shared);
      if (threadIdx.x % 32 == 0 && threadIdx.x > 0) add_sums(p, shared, threadIdx.x / 32 - 1);
    } else {
      take_registers<224>();
      if (group == 1) {
        weigh(p, shared);
      } else {
        derive(p, shared);
      }
    }
  }
};

}  // namespace hopper
