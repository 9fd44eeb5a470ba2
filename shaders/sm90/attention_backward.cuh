#pragma once
// Gradients of attention on warpgroup matrix units: five products a pair of tiles. A block owns a tile of 128 keys, 64
// for each of two warpgroups, and goes through the queries, of all heads that share the keys. Scores are computed
// transposed, so that weights and their gradients are operands in registers for the gradients of values and keys. The
// gradient of queries is added up in memory, by the copy engine; blocks of a head take turns for each tile of queries,
// in the order of descending keys, so that every run adds in the same order. In a triangle, that is the order in which
// blocks reach a tile by themselves.
#include "attention.cuh"
#include "attention_pairs.cuh"

namespace hopper {

template <bool F16, bool CAUSAL, int SIZE, int QUERIES, typename Parameters = AttentionGradientParameters>
struct AttentionBackward : AttentionPairs<F16, CAUSAL, QUERIES, 128, Parameters> {
  using Pairs = AttentionPairs<F16, CAUSAL, QUERIES, 128, Parameters>;
  using Pairs::kMasked, Pairs::kGeneral, Pairs::work_at, Pairs::work_count, Pairs::past_of, Pairs::turn_of, Pairs::hide,
      Pairs::weights, Pairs::masked_weights, Pairs::gradients, Pairs::to_operands;
  using typename Pairs::Work;
  static constexpr int kKeys = 128, kStages = 2, kThreads = 384, kTurns = 1;
  static constexpr int kSumStages = SIZE == 128 ? 2 : 1;  ///< as many as there is room for
  static constexpr int kColumns = SIZE / 64;
  static constexpr int kKeyBytes = kKeys * 128 * kColumns, kQueryBytes = QUERIES * 128 * kColumns;
  static constexpr int kRowBytes = QUERIES * 8;
  static constexpr int kScoreBytes = kKeys * 128 * (QUERIES / 64);
  static constexpr int kSumBytes = 64 * 64 * 4;  ///< of a warpgroup's sums of dq
  static constexpr int kValuesAt = kKeyBytes, kQueriesAt = 2 * kKeyBytes,
                       kGradientsAt = kQueriesAt + kStages * kQueryBytes,
                       kScoresAt = kGradientsAt + kStages * kQueryBytes, kSumsAt = kScoresAt + 2 * kScoreBytes,
                       kRowsAt = kSumsAt + 2 * kSumStages * kSumBytes, kBarriers = kRowsAt + kStages * kRowBytes;
  static constexpr int kNumbersAt = kBarriers + 23 * 8, kSharedBytes = kNumbersAt + 8;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");
  static_assert(QUERIES / 64 * kColumns == 2, "each of two warpgroups computes 64 x 64 sums of dq");

  /// Which barrier; those of sums are a pair for each stage.
  enum Barrier {
    kNumbersFull,
    kNumbersEmpty = kNumbersFull + 2,
    kKeysFull = kNumbersEmpty + 2,
    kKeysEmpty,
    kSumsFull,
    kSumsEmpty = kSumsFull + 4,
    kQueriesFull = kSumsEmpty + 4,
    kQueriesEmpty = kQueriesFull + kStages,
    kGradientsFull = kQueriesEmpty + kStages,
    kGradientsEmpty = kGradientsFull + kStages,
    kBarrierCount = kGradientsEmpty + kStages
  };
  static_assert(kBarrierCount <= 23);

  /// The number of this block's n-th piece of work, once load() knows it; from work_count() on there is none.
  static __device__ __forceinline__ std::uint32_t number_of(std::uint32_t n, const char* memory, std::uint32_t bars) {
    barrier_wait(bars + (kNumbersFull + n % 2) * 8, n / 2 & 1);
    const std::uint32_t number = reinterpret_cast<const volatile std::uint32_t*>(memory + kNumbersAt)[n % 2];
    barrier_arrive(bars + (kNumbersEmpty + n % 2) * 8);
    return number;
  }

  static __device__ __forceinline__ void load(const Parameters& p, char* memory, std::uint32_t shared,
                                              std::uint32_t bars) {
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      if (n >= 2) barrier_wait(bars + (kNumbersEmpty + n % 2) * 8, (n / 2 - 1) & 1);
      const std::uint32_t number = Pairs::next_work(p);
      reinterpret_cast<volatile std::uint32_t*>(memory + kNumbersAt)[n % 2] = number;
      barrier_arrive(bars + (kNumbersFull + n % 2) * 8);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      if (n > 0) barrier_wait(bars + kKeysEmpty * 8, (n - 1) & 1);
      barrier_expect(bars + kKeysFull * 8, 2 * kKeyBytes);
      for (int c = 0; c < kColumns; ++c) {
        copy_box(shared + c * kKeys * 128, p.k, c * 64, w.tile * kKeys, w.group, w.batch, bars + kKeysFull * 8);
        copy_box(shared + kValuesAt + c * kKeys * 128, p.v, c * 64, w.tile * kKeys, w.group, w.batch,
                 bars + kKeysFull * 8);
      }
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        const std::uint32_t head = w.group * p.heads_a_group + h;
        const float2* rows = p.rows + (static_cast<std::size_t>(w.batch) * p.heads + head) * p.tiles * QUERIES;
#pragma unroll 1
        for (std::uint32_t t = w.first; t < past_of(p, w); ++t, ++it) {
          const std::uint32_t stage = it % kStages, parity = (it / kStages - 1) & 1;
          const std::uint32_t queries = bars + (kQueriesFull + stage) * 8,
                              gradients = bars + (kGradientsFull + stage) * 8;
          if (it >= kStages) barrier_wait(bars + (kQueriesEmpty + stage) * 8, parity);
          barrier_expect(queries, kQueryBytes + kRowBytes);
          for (int c = 0; c < kColumns; ++c)
            copy_box(shared + kQueriesAt + stage * kQueryBytes + c * QUERIES * 128, p.q, c * 64, t * QUERIES, head,
                     w.batch, queries);
          copy_bytes(shared + kRowsAt + stage * kRowBytes, rows + t * QUERIES, kRowBytes, queries);
          if (it >= kStages) barrier_wait(bars + (kGradientsEmpty + stage) * 8, parity);
          barrier_expect(gradients, kQueryBytes);
          for (int c = 0; c < kColumns; ++c)
            copy_box(shared + kGradientsAt + stage * kQueryBytes + c * QUERIES * 128, p.dy, c * 64, t * QUERIES, head,
                     w.batch, gradients);
        }
      }
    }
  }

  /// Adds the sums of dq to those in memory when it is this block's turn.
  static __device__ __forceinline__ void add_sums(const Parameters& p, const char* memory, std::uint32_t shared,
                                                  std::uint32_t bars) {
    std::uint32_t it = 0;
    for (std::uint32_t n = 0;; ++n) {
      const std::uint32_t number = number_of(n, memory, bars);
      if (number >= work_count(p)) return;
      const Work w = work_at(p, number);
      for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
        const std::size_t head = static_cast<std::size_t>(w.batch) * p.heads + w.group * p.heads_a_group + h;
#pragma unroll 1
        for (std::uint32_t t = w.first; t < past_of(p, w); ++t, ++it) {
          const std::size_t tile = head * p.tiles + t;
          const std::uint32_t turn = turn_of(p, t, w), stage = it % kSumStages;
          wait_until(p.turns + tile, turn);
          for (int g = 0; g < 2; ++g) {
            barrier_wait(bars + (kSumsFull + stage * 2 + g) * 8, it / kSumStages & 1);
            const std::uint32_t from = shared + kSumsAt + (stage * 2 + g) * kSumBytes;
            float* to = p.dq + tile * (2 * kSumBytes / 4) + g * (kSumBytes / 4);
            if (turn == 0)
              store_bytes(to, from, kSumBytes);
            else
              add_floats(to, from, kSumBytes);
          }
          stored_reads();
          for (int g = 0; g < 2; ++g) barrier_arrive(bars + (kSumsEmpty + stage * 2 + g) * 8);
          stored_all();
          set_release(p.turns + tile, turn + 1);
        }
      }
    }
  }

  static __device__ __forceinline__ void multiply(const Parameters& p, const Work& w, std::uint32_t n,
                                                  std::uint32_t& it, char* memory, std::uint32_t shared,
                                                  std::uint32_t bars) {
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 7), 0) - 1;
    const std::uint32_t in_group = threadIdx.x & 127, warp = in_group >> 5, lane = threadIdx.x & 31;
    const bool speaker = in_group == 0;
    const std::uint32_t k = shared + group * 64 * 128, v = k + kValuesAt;
    const std::uint32_t key = w.tile * kKeys + group * 64 + warp * 16 + (lane >> 2);  // and key + 8
    float dk[SIZE / 2], dv[SIZE / 2];
#pragma unroll
    for (int i = 0; i < SIZE / 2; ++i) dk[i] = 0, dv[i] = 0;
    const Span seen = Pairs::by_all(p, w.batch, w.tile * kKeys + group * 64);
    barrier_wait(bars + kKeysFull * 8, n & 1);

    for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
      for (std::uint32_t t = w.first; t < past_of(p, w); ++t, ++it) {
        const std::uint32_t stage = it % kStages, parity = it / kStages & 1;
        const std::uint32_t q = shared + kQueriesAt + stage * kQueryBytes,
                            dy = shared + kGradientsAt + stage * kQueryBytes,
                            scores = shared + kScoresAt + (it & 1) * kScoreBytes;
        float s[QUERIES / 2], ds[QUERIES / 2];
        barrier_wait(bars + (kQueriesFull + stage) * 8, parity);
        product_fence();
#pragma unroll
        for (int i = 0; i < SIZE / 16; ++i)
          wgmma<F16, false, false>(s, along<kKeys>(k, i), along<QUERIES>(q, i), i > 0);
        product_commit();
        barrier_wait(bars + (kGradientsFull + stage) * 8, parity);
        product_fence();
#pragma unroll
        for (int i = 0; i < SIZE / 16; ++i)
          wgmma<F16, false, false>(ds, along<kKeys>(v, i), along<QUERIES>(dy, i), i > 0);
        product_commit();
        product_wait<1>();

        const float4* rows = reinterpret_cast<const float4*>(memory + kRowsAt + stage * kRowBytes);
        // Not by is_partial(), for which the compiler arranges all of the loop otherwise.
        bool partial = (CAUSAL && t * QUERIES < (w.tile + 1) * kKeys) || (w.tile + 1) * kKeys > p.keys ||
                       (t + 1) * QUERIES > p.queries;
        if constexpr (kGeneral) partial = Pairs::is_partial(p, w, t, seen);
        const std::uint32_t query = t * QUERIES + (lane & 3) * 2;
        std::uint32_t a[QUERIES / 16][4], da[QUERIES / 16][4];
        if constexpr (kMasked)
          masked_weights(s, rows, p, w, t, w.group * p.heads_a_group + h, key);
        else
          weights(s, rows, p, p.log2_scale);
        if (partial) hide(s, p, w.batch, query, key);
        to_operands(s, a);
        product_wait<0>();
        gradients(ds, s, rows, p);
        if (partial) hide(ds, p, w.batch, query, key);
        to_operands(ds, da);

        product_fence();
#pragma unroll
        for (int i = 0; i < QUERIES / 16; ++i) wgmma<F16, true>(dv, a[i], across<QUERIES>(dy, i), true);
        product_commit();

        // The gradients of scores, one row per key, as the copy engine would store them.
#pragma unroll
        for (int i = 0; i < QUERIES / 16; ++i) {
          const std::uint32_t row = group * 64 + warp * 16 + (lane & 15), chunk = i % 4 * 2 + (lane >> 4);
          store_matrices(scores + i / 4 * kKeys * 128 + row * 128 + (chunk ^ (row & 7)) * 16, da[i]);
        }
        fence_async();
        sync_threads(1, 256);
        float dq[32];
        const std::uint32_t half = QUERIES == 128 ? group * kKeys * 128 : 0,
                            columns = QUERIES == 128 ? 0 : group * kKeys * 128;
        product_fence();
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i)
          wgmma<F16, true, true>(dq, across<kKeys>(scores + half, i), across<kKeys>(shared + columns, i), i > 0);
        product_commit();
        product_fence();
#pragma unroll
        for (int i = 0; i < QUERIES / 16; ++i) wgmma<F16, true>(dk, da[i], across<QUERIES>(q, i), true);
        product_commit();
        product_wait<2>();
        if (speaker) barrier_arrive(bars + (kGradientsEmpty + stage) * 8);
        product_wait<1>();
        if (speaker && h + 1 == p.heads_a_group && t + 1 == past_of(p, w)) barrier_arrive(bars + kKeysEmpty * 8);
        const std::uint32_t place = it % kSumStages * 2 + group;
        if (it >= kSumStages) barrier_wait(bars + (kSumsEmpty + place) * 8, (it / kSumStages - 1) & 1);
        float4* sums = reinterpret_cast<float4*>(memory + kSumsAt + place * kSumBytes) + in_group;
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i * 128] = make_float4(dq[i * 4], dq[i * 4 + 1], dq[i * 4 + 2], dq[i * 4 + 3]);
        fence_async();
        barrier_arrive(bars + (kSumsFull + place) * 8);
        product_wait<0>();
        if (speaker) barrier_arrive(bars + (kQueriesEmpty + stage) * 8);
      }
    }
    if (speaker && w.first >= past_of(p, w)) barrier_arrive(bars + kKeysEmpty * 8);
    const auto rows_of = [&](std::uint16_t* gradient, const std::uint32_t(&strides)[3], std::uint32_t column) {
      gradient += static_cast<std::size_t>(w.batch) * strides[0] + static_cast<std::size_t>(w.group) * strides[1];
      return [at = gradient + column, stride = strides[2]](std::uint32_t key) {
        return at + static_cast<std::size_t>(key) * stride;
      };
    };
    const std::uint32_t row = group * 64 + warp * 16;
    // Where this warp's scores of the next queries will be.
    char* scratch = memory + kScoresAt + (it & 1) * kScoreBytes + row * 128;
#pragma unroll
    for (std::uint32_t c = 0; c < kColumns; ++c) {
      float x[32], y[32];
#pragma unroll
      for (std::uint32_t i = 0; i < 32; ++i) x[i] = dv[c * 32 + i], y[i] = dk[c * 32 + i];
      if (p.value_size > c * 64)
        store_rows<F16, 64>(rows_of(p.dv, p.value_strides, c * 64), w.tile * kKeys + row, p.keys, p.value_size - c * 64,
                            x, {1, 1}, scratch);
      if (p.size > c * 64)
        store_rows<F16, 64>(rows_of(p.dk, p.strides, c * 64), w.tile * kKeys + row, p.keys, p.size - c * 64, y,
                            {p.scale, p.scale}, scratch);
    }
    __syncwarp();
  }

  static __device__ __forceinline__ void run(const Parameters& p, char* memory) {
    const std::uint32_t shared = shared_address(memory), bars = shared + kBarriers;
    if (threadIdx.x == 0) {
      barrier_init(bars + kKeysFull * 8, 1), barrier_init(bars + kKeysEmpty * 8, 2);
      for (int i = 0; i < 2; ++i) {
        barrier_init(bars + (kNumbersFull + i) * 8, 1), barrier_init(bars + (kNumbersEmpty + i) * 8, 257);
      }
      for (int i = 0; i < 2 * kSumStages; ++i)
        barrier_init(bars + (kSumsFull + i) * 8, 128), barrier_init(bars + (kSumsEmpty + i) * 8, 1);
      for (int s = 0; s < kStages; ++s) {
        barrier_init(bars + (kQueriesFull + s) * 8, 1), barrier_init(bars + (kGradientsFull + s) * 8, 1);
        barrier_init(bars + (kQueriesEmpty + s) * 8, 2), barrier_init(bars + (kGradientsEmpty + s) * 8, 2);
      }
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      give_registers<24>();
      if (threadIdx.x == 0) load(p, memory, shared, bars);
      if (threadIdx.x == 32) add_sums(p, memory, shared, bars);
    } else {
      take_registers<240>();
      std::uint32_t it = 0;
      for (std::uint32_t n = 0;; ++n) {
        const std::uint32_t number = number_of(n, memory, bars);
        if (number >= work_count(p)) break;
        multiply(p, work_at(p, number), n, it, memory, shared, bars);
      }
    }
  }
};

}  // namespace hopper
