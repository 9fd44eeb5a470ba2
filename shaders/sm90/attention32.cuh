#pragma once
// Attention of f32 on warpgroup matrix units, as accurate as plain f32: every product is six of bf16 parts (parts.cuh).
// The matrix units bound it, at a sixth of their speed; next comes shared memory.
//
// What passes by, keys and values, attention_parts() splits once, before. What a block keeps, its queries, it splits
// itself. A block stays on its multiprocessor and takes tile after tile of queries, 64 for each of two warpgroups. One
// thread feeds the copy engine with units of three parts of 64 x 64 keys or values, through a ring. The warpgroups
// take turns at the matrix units, so that softmax and splitting of one hide behind the products of the other.
//
// The matrix units truncate sums toward 0. So the values of 64 keys are summed apart, small products first, and added
// to f32 sums, which round.
//
// If a number does not split (outside()), results do not count: attention_parts() says so in unsplit[0], and this
// kernel ends at once, or this kernel finds it among its queries and says so in unsplit[1]. The host lets a kernel
// follow that computes all in plain f32 if either is set.
#include "attention.cuh"
#include "parts.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin_f32.cpp, for all kernels of this file.
struct Attention32Parameters {
  TensorMap k, v;  ///< [parts * batch, heads, rows, size]
  const float* q;
  float* y;
  float* logsumexp;        ///< [batch, heads, queries]
  std::uint32_t* unsplit;  ///< [2]: whether a number does not split
  std::uint32_t batch, heads, heads_a_group, queries, keys, size;
  std::uint32_t q_strides[3], y_strides[3];  ///< batch, head, row
  float scale;                               ///< of scores, in units of log 2
  std::uint32_t tiles;                       ///< of queries, per head
};

/// 64 rows of 64 elements, 16 bits each, as the copy engine stores them; a unit has one for each part.
constexpr int kBoxBytes = 64 * 128, kUnitBytes = kParts * kBoxBytes;

template <typename T>
__device__ __forceinline__ T* head_at(T* x, const std::uint32_t (&strides)[3], std::uint32_t batch,
                                      std::uint32_t head) {
  return x + static_cast<std::size_t>(batch) * strides[0] + static_cast<std::size_t>(head) * strides[1];
}

/// A thread's share of 64 rows, in the order of sums and of left operands; zeros where there is nothing.
/// @param row of the thread's first; its others are 8 further on @param count of rows
template <int SIZE>
__device__ __forceinline__ void load_floats(float (&x)[SIZE / 2], const float* head, std::uint32_t stride,
                                            std::uint32_t row, std::uint32_t count, std::uint32_t size) {
#pragma unroll
  for (int i = 0; i < SIZE / 2; i += 2) {
    const std::uint32_t r = row + (i >> 1 & 1) * 8, column = i / 4 * 8 + (threadIdx.x & 3) * 2;
    float2 two = make_float2(0, 0);
    if (r < count && column < size)
      two = *reinterpret_cast<const float2*>(head + static_cast<std::size_t>(r) * stride + column);
    x[i] = two.x, x[i + 1] = two.y;
  }
}
/// The other way, times a factor for each of the two rows: 32 bytes of a row at a time.
template <int SIZE>
__device__ __forceinline__ void store_floats(float* head, std::uint32_t stride, std::uint32_t row, std::uint32_t count,
                                             std::uint32_t size, const float (&x)[SIZE / 2],
                                             const float (&factors)[2]) {
#pragma unroll
  for (int i = 0; i < SIZE / 2; i += 2) {
    const std::uint32_t h = i >> 1 & 1, r = row + h * 8, column = i / 4 * 8 + (threadIdx.x & 3) * 2;
    if (r < count && column < size)
      *reinterpret_cast<float2*>(head + static_cast<std::size_t>(r) * stride + column) =
          make_float2(x[i] * factors[h], x[i + 1] * factors[h]);
  }
}

/// Sums, or what load_floats() loads, to left operands.
template <int N>
__device__ __forceinline__ void split_rows(const float (&x)[N], std::uint32_t (&a)[kParts][N / 8][4]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const Parts two = split(x[i * 2], x[i * 2 + 1]);
    a[kHigh][i / 4][i % 4] = two.high, a[kMiddle][i / 4][i % 4] = two.middle, a[kLow][i / 4][i % 4] = two.low;
  }
}
template <int N>
__device__ __forceinline__ bool any_outside(const float (&x)[N]) {
  bool any = false;
#pragma unroll
  for (int i = 0; i < N; ++i) any |= outside(x[i]);
  return any;
}

/// Stores a warpgroup's left operands of 64 rows, from a part on, as the copy engine would: for each part, 64 columns
/// after another.
template <int FIRST, int STEPS>
__device__ __forceinline__ void store_parts(std::uint32_t to, const std::uint32_t (&a)[kParts][STEPS][4]) {
  const std::uint32_t row = (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x & 15), right = threadIdx.x >> 4 & 1;
#pragma unroll
  for (int part = FIRST; part < kParts; ++part) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i)
      store_matrices(to + ((part - FIRST) * ((STEPS + 3) / 4) + i / 4) * kBoxBytes + row * 128 +
                         ((i % 4 * 2 + right) ^ (row & 7)) * 16,
                     a[part][i]);
  }
}

/// Head sizes up to SIZE, 64 or 128. The base has what does not depend on the dtype: the order of tiles and the
/// softmax.
template <bool CAUSAL, int SIZE>
struct AttentionForward32 : AttentionForward<false, CAUSAL, 64, 64, 2, 64, 2, Attention32Parameters> {
  using Base = AttentionForward<false, CAUSAL, 64, 64, 2, 64, 2, Attention32Parameters>;
  using Parameters = Attention32Parameters;
  using Base::number_of, Base::tile_at, Base::tile_count, Base::blocks_of, Base::wait_for_turn, Base::give_turn;
  using typename Base::Tile, typename Base::Softmax, typename Base::Seen;
  static constexpr int kGroups = 2, kKeys = 64, kThreads = 384, kColumns = SIZE / 64;
  /// How many parts of queries stay in registers: of these, products read half as much of shared memory.
  static constexpr int kInRegisters = SIZE == 64 ? kParts : 1;
  static constexpr int kSlots = SIZE == 64 ? 8 : 6;
  static constexpr int kQueryBytes = (kParts - kInRegisters) * kColumns * kBoxBytes;  ///< of a warpgroup, of the others
  static constexpr int kRingAt = kGroups * kQueryBytes, kBarriers = kRingAt + kSlots * kUnitBytes,
                       kSharedBytes = kBarriers + 2 * kSlots * 8;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");

  struct Ring {
    std::uint32_t shared, at = 0;  ///< shared memory; units that have passed
    __device__ std::uint32_t slot() const { return at % kSlots; }
    __device__ std::uint32_t unit() const { return shared + kRingAt + slot() * kUnitBytes; }
    __device__ std::uint32_t full() const { return shared + kBarriers + slot() * 8; }
    __device__ std::uint32_t empty() const { return full() + kSlots * 8; }
    __device__ std::uint32_t parity() const { return at / kSlots & 1; }
    __device__ Ring operator+(std::uint32_t n) const { return {shared, at + n}; }
  };

  /// The parts of 64 columns of 64 rows.
  static __device__ __forceinline__ void fetch(const Ring& ring, const Parameters& p, const TensorMap& map, int column,
                                               int row, int group, int batch) {
    if (ring.at >= kSlots) barrier_wait(ring.empty(), ring.parity() ^ 1);
    barrier_expect(ring.full(), kUnitBytes);
    for (int part = 0; part < kParts; ++part)
      copy_box(ring.unit() + part * kBoxBytes, map, column, row, group, part * static_cast<int>(p.batch) + batch,
               ring.full());
  }
  static __device__ __forceinline__ void produce(const Parameters& p, Ring ring) {
    for (std::uint32_t turn = 0; number_of(turn) < tile_count(p); ++turn) {
      const Tile t = tile_at(p, number_of(turn));
      const int group = t.head / p.heads_a_group;
      for (int b = static_cast<int>(t.blocks) - 1; b >= 0; --b) {
        for (int c = 0; c < kColumns; ++c, ++ring.at) fetch(ring, p, p.k, c * 64, b * kKeys, group, t.batch);
        for (int c = 0; c < kColumns; ++c, ++ring.at) fetch(ring, p, p.v, c * 64, b * kKeys, group, t.batch);
      }
    }
  }

  static __device__ __forceinline__ void wait_full(const Ring& ring) {
    for (int c = 0; c < kColumns; ++c) barrier_wait((ring + c).full(), (ring + c).parity());
  }
  /// Gives the next units back. All warps of the warpgroup have seen them full.
  static __device__ __forceinline__ void give_back(Ring& ring, bool speaker) {
    for (int c = 0; c < kColumns; ++c, ++ring.at) {
      if (speaker) barrier_arrive(ring.empty());
    }
  }

  static __device__ __forceinline__ void consume(const Parameters& p, Ring ring) {
    // The same in all lanes, as the compiler can see: products may not be in branches that diverge.
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x >> 7), 0) - 1;
    const std::uint32_t warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    const bool speaker = (threadIdx.x & 127) == 0;
    const std::uint32_t queries = ring.shared + group * kQueryBytes;
    if (group == kGroups - 1) give_turn(group);
    for (std::uint32_t turn = 0; number_of(turn) < tile_count(p); ++turn) {
      const Tile t = tile_at(p, number_of(turn));
      const std::uint32_t first = t.first + group * 64, row = first + warp * 16 + (lane >> 2);
      const std::uint32_t own = first >= t.end_row ? 0 : blocks_of(p, t, first, min(first + 64, t.end_row));
      // Blocks of keys that only later rows attend to.
      for (std::uint32_t b = t.blocks; b > own; --b) {
        for (int i = 0; i < 2; ++i) {
          wait_full(ring);
          sync_threads(4 + group, 128);
          give_back(ring, speaker);
          wait_for_turn(group), give_turn(group);
        }
      }
      if (own == 0) continue;

      std::uint32_t q[kParts][SIZE / 16][4];
      {
        float x[SIZE / 2];
        load_floats<SIZE>(x, head_at(p.q, p.q_strides, t.batch, t.head), p.q_strides[2], row, p.queries, p.size);
        if (any_outside(x)) p.unsplit[1] = 1;
        split_rows(x, q);
      }
      if constexpr (kInRegisters < kParts) {
        sync_threads(4 + group, 128);
        store_parts<kInRegisters>(queries, q);
        fence_async();
        sync_threads(4 + group, 128);
      }
      Seen seen;
      seen.end = t.end;
#pragma unroll
      for (int h = 0; h < 2; ++h) seen.last[h] = static_cast<int>(row) + h * 8;
      Softmax soft{{-INFINITY, -INFINITY}, {0, 0}};
      float y[kColumns][32];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 32; ++i) y[c][i] = 0;
      }

      for (int block = static_cast<int>(own) - 1; block >= 0; --block) {
        float sums[kColumns][32];
        wait_full(ring);
        wait_for_turn(group);
        product_fence();
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const std::uint32_t k = (ring + c).unit();
          multiply_parts<4>([&](int of_q, int of_k, int i, bool add) {
            const std::uint64_t keys = along<64>(k + of_k * kBoxBytes, i);
            if (of_q < kInRegisters)
              wgmma(sums[c], q[of_q][c * 4 + i], keys, add);
            else
              wgmma<false, false, false>(
                  sums[c], along<64>(queries + ((of_q - kInRegisters) * kColumns + c) * kBoxBytes, i), keys, add);
          });
          product_commit();
        }
        give_turn(group);
        product_wait<0>();
        give_back(ring, speaker);
        float(&s)[32] = sums[0];
#pragma unroll
        for (int i = 0; kColumns > 1 && i < 32; ++i) s[i] += sums[kColumns - 1][i];
        const float2 shrink =
            Base::template weights<true>(s, soft, p, seen, block * kKeys, block + 1 == static_cast<int>(own));
        std::uint32_t a[kParts][kKeys / 16][4];
        split_rows(s, a);

        wait_full(ring);
        wait_for_turn(group);
        product_fence();
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const std::uint32_t v = (ring + c).unit();
          multiply_parts<4>([&](int of_a, int of_v, int i, bool add) {
            wgmma<false, true>(sums[c], a[of_a][i], across<64>(v + of_v * kBoxBytes, i), add);
          });
          product_commit();
        }
        give_turn(group);
        product_wait<0>();
        give_back(ring, speaker);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
#pragma unroll
          for (int i = 0; i < 32; ++i) y[c][i] = y[c][i] * (i & 2 ? shrink.y : shrink.x) + sums[c][i];
        }
      }

      float inverse[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float sum = sum_of_row(soft.sum[h]);
        inverse[h] = sum == 0 ? 0 : 1 / sum;
        if ((lane & 3) == 0 && row + h * 8 < t.end_row) {
          const std::size_t at = (static_cast<std::size_t>(t.batch) * p.heads + t.head) * p.queries + row + h * 8;
          p.logsumexp[at] = (__fmul_rn(soft.largest[h], p.scale) + log2f(sum)) * Base::kLog2;
        }
      }
      float* to = head_at(p.y, p.y_strides, t.batch, t.head);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (p.size > c * 64u)
          store_floats<64>(to + c * 64, p.y_strides[2], row, t.end_row, p.size - c * 64u, y[c], inverse);
      }
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p, char* memory) {
    if (p.unsplit[0] != 0) return;
    const Ring ring{shared_address(memory)};
    if (threadIdx.x == 0) {
      for (int s = 0; s < kSlots; ++s) barrier_init((ring + s).full(), 1), barrier_init((ring + s).empty(), kGroups);
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      give_registers<24>();
      if (threadIdx.x == 0) produce(p, ring);
    } else {
      take_registers<240>();
      consume(p, ring);
    }
  }
};

/// Before: the parts of what passes by, two tensors of one shape. Before gradients (`y`), which read the statistics of
/// rows: Σ y · dy, where dy is the second of them, logsumexp in units of log 2, and turns set to 0.
struct AttentionPartsParameters {
  const float* from[2];
  std::uint16_t* to[2];    ///< [parts, batch, heads, rows, pitch]
  std::uint32_t* unsplit;  ///< set if a number does not split
  const float *y, *logsumexp;
  float2* statistics;  ///< [batch, heads, rows_a_head], those of the last tile that are not there included
  std::uint32_t* turns;
  std::uint32_t heads, rows, size, pitch, rows_a_head, all, turn_count;  ///< all: batch * heads * rows_a_head
  std::uint32_t from_strides[2][3], y_strides[3];                        ///< batch, head, row
};

__device__ __forceinline__ void attention_parts(const AttentionPartsParameters& p) {
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, all_threads = gridDim.x * blockDim.x;
  for (std::uint32_t i = thread; i < p.turn_count; i += all_threads) p.turns[i] = 0;
  bool any = false;
  // Eight lanes a row, eight elements each at a time. All lanes of a warp stay for the sums.
  for (std::uint32_t n = thread / 8; n < (2 * p.all + 3) / 4 * 4; n += all_threads / 8) {
    const std::uint32_t which = n < p.all ? 0 : 1, i = n - which * p.all;
    const std::uint32_t head = i / p.rows_a_head, row = i - head * p.rows_a_head, batch = head / p.heads,
                        of_batch = head - batch * p.heads;
    const bool there = n < 2 * p.all && row < p.rows, summed = which == 1 && p.y != nullptr;
    float sum = 0;
    if (there) {
      const float* x = head_at(p.from[which], p.from_strides[which], batch, of_batch) +
                       static_cast<std::size_t>(row) * p.from_strides[which][2];
      const float* y = summed
                           ? head_at(p.y, p.y_strides, batch, of_batch) + static_cast<std::size_t>(row) * p.y_strides[2]
                           : nullptr;
      const std::size_t part = static_cast<std::size_t>(p.all / p.rows_a_head) * p.rows * p.pitch;
      std::uint16_t* to = p.to[which] + (static_cast<std::size_t>(head) * p.rows + row) * p.pitch;
      for (std::uint32_t c = (threadIdx.x & 7) * 8; c < p.size; c += 64) {
        std::uint32_t words[kParts][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float4 four = make_float4(0, 0, 0, 0);
          if (c + half * 4 < p.size) {
            four = *reinterpret_cast<const float4*>(x + c + half * 4);
            if (summed) {
              const float4 z = *reinterpret_cast<const float4*>(y + c + half * 4);
              sum += (four.x * z.x + four.y * z.y) + (four.z * z.z + four.w * z.w);
            }
          }
          any |= outside(four.x) || outside(four.y) || outside(four.z) || outside(four.w);
          const Parts first = split(four.x, four.y), second = split(four.z, four.w);
          words[kHigh][half * 2] = first.high, words[kHigh][half * 2 + 1] = second.high;
          words[kMiddle][half * 2] = first.middle, words[kMiddle][half * 2 + 1] = second.middle;
          words[kLow][half * 2] = first.low, words[kLow][half * 2 + 1] = second.low;
        }
#pragma unroll
        for (int i = 0; i < kParts; ++i)
          *reinterpret_cast<uint4*>(to + i * part + c) = make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
      }
    }
    if (p.y == nullptr) continue;
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (which == 1 && n < 2 * p.all && (threadIdx.x & 7) == 0) {
      // Without a row, or where a row attends to nothing, weights are 0.
      float logsumexp = row < p.rows ? p.logsumexp[static_cast<std::size_t>(head) * p.rows + row] : INFINITY;
      if (logsumexp == -INFINITY) logsumexp = INFINITY;
      p.statistics[i] = make_float2(logsumexp * 1.44269504088896f, sum);
    }
  }
  if (any) *p.unsplit = 1;
}

}  // namespace hopper
