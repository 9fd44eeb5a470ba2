#pragma once
// Gradients of attention of at most 64 queries and 64 keys, in one dispatch: a block owns all of a head of keys and the
// heads of queries that share it, so that the gradient of queries needs no sums in memory. Where attention_backward.cuh
// takes three dispatches, one behind the other, each is mostly its start and its end at such sizes.
#include "attention_backward.cuh"
#include "attention_rows.cuh"

namespace hopper {

/// The host's side is tensor/ops/attention/cubin.cpp.
struct AttentionShortParameters {
  TensorMap q, k, v, dy;                   ///< [batch, heads, rows, size]
  const std::uint16_t *y, *gradient;       ///< gradient: dy as it lies
  const float* logsumexp;                  ///< [batch, heads, queries]
  std::uint16_t *dq, *dk, *dv;
  std::uint32_t batch, heads, heads_a_group, queries, keys, size;
  std::uint32_t y_strides[3], gradient_strides[3], dq_strides[3], dk_strides[3];  ///< batch, head, row; dk's are dv's
  float scale, log2_scale;
};

template <bool F16, bool CAUSAL>
struct AttentionShortBackward {
  using Pair = AttentionBackward<F16, CAUSAL, 128, 64, AttentionShortParameters>;  ///< of tiles
  static constexpr int kThreads = 128, kRows = 64, kBoxBytes = kRows * 128;
  static constexpr int kValuesAt = kBoxBytes, kQueriesAt = 2 * kBoxBytes, kGradientsAt = 3 * kBoxBytes,
                       kScoresAt = 4 * kBoxBytes, kScratchAt = 5 * kBoxBytes, kRowsAt = 6 * kBoxBytes,
                       kBarrier = kRowsAt + kRows * 8, kSharedBytes = kBarrier + 8;

  static __device__ __forceinline__ std::size_t offset(const std::uint32_t (&strides)[3], std::uint32_t batch,
                                                       std::uint32_t head) {
    return static_cast<std::size_t>(batch) * strides[0] + static_cast<std::size_t>(head) * strides[1];
  }
  /// Stores a warp's 16 rows of a gradient. @param rows that there are
  static __device__ __forceinline__ void store(const AttentionShortParameters& p, std::uint16_t* to,
                                               std::uint32_t stride, std::uint32_t rows, const float (&x)[32],
                                               float factor, char* memory) {
    const std::uint32_t row = (threadIdx.x >> 5) * 16;
    const auto at = [to, stride](std::uint32_t r) { return to + static_cast<std::size_t>(r) * stride; };
    store_rows<F16, 64>(at, row, rows, p.size, x, {factor, factor}, memory + kScratchAt + row * 128);
  }
  /// What is known of each query, two threads a row.
  static __device__ __forceinline__ void find_rows(const AttentionShortParameters& p, std::uint32_t batch,
                                                   std::uint32_t head, char* memory) {
    const std::uint32_t row = threadIdx.x / 2;
    float sum = 0;
    if (row < p.queries) {
      const std::uint16_t* y = p.y + offset(p.y_strides, batch, head) + static_cast<std::size_t>(row) * p.y_strides[2];
      const std::uint16_t* dy = p.gradient + offset(p.gradient_strides, batch, head) +
                                static_cast<std::size_t>(row) * p.gradient_strides[2];
      for (std::uint32_t c = (threadIdx.x & 1) * 8; c < p.size; c += 16) sum += product_of_eight<F16>(y + c, dy + c);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    if ((threadIdx.x & 1) != 0) return;
    const float* logsumexp = p.logsumexp + (static_cast<std::size_t>(batch) * p.heads + head) * p.queries;
    reinterpret_cast<float2*>(memory + kRowsAt)[row] = row_of(row < p.queries ? logsumexp[row] : INFINITY, sum);
  }

  static __device__ __forceinline__ void run(const AttentionShortParameters& p, char* memory) {
    const std::uint32_t shared = shared_address(memory), bar = shared + kBarrier;
    const std::uint32_t groups = p.heads / p.heads_a_group, batch = blockIdx.x / groups,
                        group = blockIdx.x - batch * groups, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (threadIdx.x == 0) {
      barrier_init(bar, 1);
      barrier_init_done();
    }
    __syncthreads();
    const std::uint32_t k = shared, v = k + kValuesAt, q = k + kQueriesAt, dy = k + kGradientsAt;
    float dk[32], dv[32];
    for (std::uint32_t h = 0; h < p.heads_a_group; ++h) {
      const std::uint32_t head = group * p.heads_a_group + h;
      if (threadIdx.x == 0) {
        barrier_expect(bar, (h == 0 ? 4 : 2) * kBoxBytes);
        if (h == 0) {
          copy_box(k, p.k, 0, 0, group, batch, bar);
          copy_box(v, p.v, 0, 0, group, batch, bar);
        }
        copy_box(q, p.q, 0, 0, head, batch, bar);
        copy_box(dy, p.dy, 0, 0, head, batch, bar);
      }
      find_rows(p, batch, head, memory);
      __syncthreads();
      barrier_wait(bar, h & 1);

      float s[32], ds[32], dq[32];
      product_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma<F16, false, false>(s, along<kRows>(k, i), along<kRows>(q, i), i > 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma<F16, false, false>(ds, along<kRows>(v, i), along<kRows>(dy, i), i > 0);
      product_commit();
      product_wait<0>();
      const float4* rows = reinterpret_cast<const float4*>(memory + kRowsAt);
      const std::uint32_t query = (lane & 3) * 2, key = warp * 16 + (lane >> 2);
      std::uint32_t a[4][4], da[4][4];
      Pair::weights(s, rows, p, p.log2_scale);
      Pair::hide(s, p, batch, query, key);
      Pair::to_operands(s, a);
      Pair::gradients(ds, s, rows, p);
      Pair::hide(ds, p, batch, query, key);
      Pair::to_operands(ds, da);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t row = warp * 16 + (lane & 15), chunk = i * 2 + (lane >> 4);
        store_matrices(shared + kScoresAt + row * 128 + (chunk ^ (row & 7)) * 16, da[i]);
      }
      fence_async();
      __syncthreads();
      product_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        wgmma<F16, true, true>(dq, across<kRows>(shared + kScoresAt, i), across<kRows>(k, i), i > 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma<F16, true>(dv, a[i], across<kRows>(dy, i), h > 0 || i > 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma<F16, true>(dk, da[i], across<kRows>(q, i), h > 0 || i > 0);
      product_commit();
      product_wait<0>();
      store(p, p.dq + offset(p.dq_strides, batch, head), p.dq_strides[2], p.queries, dq, p.scale, memory);
      __syncthreads();  // before queries, gradients, scores and rows of the next head
    }
    store(p, p.dk + offset(p.dk_strides, batch, group), p.dk_strides[2], p.keys, dk, p.scale, memory);
    store(p, p.dv + offset(p.dk_strides, batch, group), p.dk_strides[2], p.keys, dv, 1, memory);
  }
};

}  // namespace hopper
