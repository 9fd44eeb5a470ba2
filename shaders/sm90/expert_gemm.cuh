#pragma once
// y = W · x of the rows of each expert, or act(W · x) ⊙ (V · x), on warpgroup matrix units: prompts of mixtures of
// experts. Rows of x are sorted by expert, in tiles of 96 that have one expert each (quantized/expert_rows.comp). The
// weights stay in their format: a warp copies its 16 rows to a ring of its own and decodes them to registers
// (skinny_formats.cuh), the left operand of the products. So x, the right one, lies in memory in the order in which a
// format's k is taken. Weights are read and decoded once for a tile.
//
// A block has 128 rows of weights (64 of each matrix with a gate, whose two results to multiply are in one thread), and
// a multiprocessor has two blocks, so that one decodes while the other multiplies.
#include "activations.cuh"
#include "skinny_formats.cuh"

namespace hopper {

/// Laid out as the host writes them: tensor/ops/quantized/gpu_expert_gemm.cpp.
struct ExpertParameters {
  TensorMap x;                 ///< boxes of 64 elements of 96 rows
  const unsigned char* w;      ///< [experts, n, k], rows of row_quads · 16 bytes
  const unsigned char* gated;  ///< the same of the gated values, or null
  const std::int32_t* tiles;   ///< expert of each tile, -1: none
  void* y;                     ///< [rows, n]: f32, or bf16 with a gate
  std::uint32_t n, row_quads, steps, blocks_n;
  std::uint32_t activation;  ///< of the gate
  std::uint32_t order;       ///< of y's columns: expert_rows.comp
};

/// The element that lies at a place of a row: expert_rows.comp has the inverse.
__device__ __forceinline__ std::uint32_t element_at(std::uint32_t place, std::uint32_t order) {
  if (order == 0) return place;
  const std::uint32_t in_eight = (place >> 2 & 4) | (place >> 2 & 2) | (place & 1), t = place >> 1 & 3;
  const std::uint32_t j = place >> 5 & 7;
  if (order == 1) return (place & ~63u) | (j & 1) << 5 | t << 3 | in_eight;
  if (order == 2) return (place & ~255u) | t << 6 | j << 3 | in_eight;
  const std::uint32_t half = t >> 1;
  return (place & ~255u) | half << 7 | (j >> 2) << 6 | (j >> 1 & 1) << 5 | (t & 1) << 4 | ((j & 1) ^ half) << 3 |
         in_eight;
}

template <typename Row, int STAGES_W, int STAGES_X>
struct ExpertGemm {
  static constexpr int kTile = 96, kSums = 48, kWarps = 8;
  static constexpr int kChunks = Row::kPitch / 16;  ///< of 16 bytes, in a row's step
  static constexpr int kStageBytes = 16 * Row::kPitch, kCopies = (16 * kChunks + 31) / 32;
  static constexpr int kBoxBytes = kTile * 128;       ///< a stage of x: 64 elements
  static constexpr int kBoxes = Row::kElements / 64;  ///< of a step
  static constexpr int kRings = STAGES_X * kBoxBytes, kBarriers = kRings + kWarps * STAGES_W * kStageBytes;
  static constexpr int kResultPitch = 132;  ///< floats, so that the threads of a warp meet different banks
  static constexpr int kResultBytes = kTile * kResultPitch * 4;
  static constexpr int kSharedBytes = (kBarriers > kResultBytes ? kBarriers : kResultBytes) + STAGES_X * 16;
  static_assert(2 * (kSharedBytes + 1024) <= 232448, "two blocks a multiprocessor");

  /// Copies 16 rows of weights, step after step.
  struct FetchWeights {
    const unsigned char* from[kCopies];
    char* ring;
    std::uint32_t steps, step = 0, slot = 0;

    static __device__ __forceinline__ std::uint32_t row(int i) { return (i * 32 + (threadIdx.x & 31)) / kChunks; }
    static __device__ __forceinline__ std::uint32_t chunk(int i) { return (i * 32 + (threadIdx.x & 31)) % kChunks; }

    /// @param first place among the block's columns of y
    __device__ __forceinline__ FetchWeights(const ExpertParameters& p, char* ring, std::uint32_t expert,
                                            std::uint32_t first)
        : ring(ring), steps(p.steps) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const bool second = p.gated != nullptr && row(i) >= 8;
        const std::uint32_t place = min(first + (second ? row(i) - 8 : row(i)), p.n - 1);
        const std::size_t at = static_cast<std::size_t>(expert) * p.n + element_at(place, p.order);
        from[i] = (second ? p.gated : p.w) + (at * p.row_quads + chunk(i)) * 16;
      }
    }
    __device__ __forceinline__ void operator()() {
      if (step < steps) {
        char* to = ring + slot * kStageBytes;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          if (16 * kChunks % 32 != 0 && row(i) >= 16) continue;
          copy_16(to + Row::place(row(i), chunk(i)), from[i] + (step * Row::kBytes & ~15u));
        }
        ++step;
        slot = slot + 1 == STAGES_W ? 0 : slot + 1;
      }
      copy_commit();
    }
  };

  static __device__ __forceinline__ void run(const ExpertParameters& p, char* memory) {
    const std::uint32_t tile = blockIdx.x / p.blocks_n, columns = p.gated != nullptr ? 64 : 128;
    const std::uint32_t first = blockIdx.x % p.blocks_n * columns, warp = threadIdx.x >> 5;
    const std::int32_t expert = p.tiles[tile];
    if (expert < 0) return;
    const std::uint32_t shared = shared_address(memory), full = shared + kSharedBytes - STAGES_X * 16,
                        empty = full + STAGES_X * 8;
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES_X; ++i) {
        barrier_init(full + i * 8, 1);
        barrier_init(empty + i * 8, 2);
      }
      barrier_init_done();
    }
    FetchWeights fetch(p, memory + kRings + warp * STAGES_W * kStageBytes, static_cast<std::uint32_t>(expert),
                       first + warp * (columns / 8));
    for (int i = 0; i < STAGES_W - 1; ++i) fetch();
    __syncthreads();
    const std::uint32_t boxes = p.steps * kBoxes;
    if (threadIdx.x == 0) {
      for (std::uint32_t b = 0; b < STAGES_X && b < boxes; ++b) fetch_x(p, shared, full, tile, b);
    }
    float d[kSums];
    multiply(p, memory, shared, full, empty, tile, boxes, fetch, d);
    __syncthreads();  // the rings are no longer read
    put(p, d, reinterpret_cast<float*>(memory));
    __syncthreads();
    store(p, reinterpret_cast<const float*>(memory), tile, first, columns);
  }

  static __device__ __forceinline__ void fetch_x(const ExpertParameters& p, std::uint32_t shared, std::uint32_t full,
                                                 std::uint32_t tile, std::uint32_t box) {
    const std::uint32_t stage = box % STAGES_X;
    barrier_expect(full + stage * 8, kBoxBytes);
    copy_box(shared + stage * kBoxBytes, p.x, static_cast<int>(box * 64), static_cast<int>(tile * kTile), 0,
             full + stage * 8);
  }

  static __device__ __forceinline__ void multiply(const ExpertParameters& p, char* memory, std::uint32_t shared,
                                                  std::uint32_t full, std::uint32_t empty, std::uint32_t tile,
                                                  std::uint32_t boxes, FetchWeights& fetch, float (&d)[kSums]) {
    const std::uint32_t warp = threadIdx.x >> 5, g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
    const bool speaker = (threadIdx.x & 127) == 0;
    const char* ring = memory + kRings + warp * STAGES_W * kStageBytes;
    std::uint32_t box = 0, read = 0;
    std::uint32_t a[2][8];  ///< of two products each; the last ones may still be read
#pragma unroll 1
    for (std::uint32_t step = 0; step < p.steps; ++step) {
      copy_wait<STAGES_W - 2>();
      __syncwarp();
      // Registers that the last products read are written only behind them; those of other formats are by then.
      if constexpr (!Row::kDecodes) product_wait<0>();
      Row upper, lower;
      const char* stage = ring + read * kStageBytes;
      upper.load(stage + g * Row::kPitch, g, t, step);
      lower.load(stage + (g + 8) * Row::kPitch, g, t, step);
      read = read + 1 == STAGES_W ? 0 : read + 1;
      __syncwarp();
      fetch();
#pragma unroll
      for (int j = 0; j < Row::kEights; ++j) {
        if (j % 2 == 0) barrier_wait(full + box % STAGES_X * 8, box / STAGES_X & 1);
        const uint4 u = upper.eight(j), l = lower.eight(j);
        std::uint32_t(&own)[8] = a[j % 2];
        own[0] = u.x, own[1] = l.x, own[2] = u.y, own[3] = l.y;
        own[4] = u.z, own[5] = l.z, own[6] = u.w, own[7] = l.w;
        product_fence();
        const std::uint32_t x = shared + box % STAGES_X * kBoxBytes + j % 2 * 64;
        wgmma<Row::kF16>(d, reinterpret_cast<const std::uint32_t(&)[4]>(own[0]), operand<128>(x, 1024),
                         step > 0 || j > 0);
        wgmma<Row::kF16>(d, reinterpret_cast<const std::uint32_t(&)[4]>(own[4]), operand<128>(x + 32, 1024), true);
        product_commit();
        product_wait<1>();  // of the products before
        if (j % 2 == 1) {
          ++box;
        } else if (box > 0 && speaker) {  // the box before is read
          const std::uint32_t stage = (box - 1) % STAGES_X;
          barrier_arrive(empty + stage * 8);
          if (threadIdx.x == 0 && box - 1 + STAGES_X < boxes) {
            barrier_wait(empty + stage * 8, (box - 1) / STAGES_X & 1);
            fetch_x(p, shared, full, tile, box - 1 + STAGES_X);
          }
        }
      }
    }
    product_wait<0>();
  }

  /// Moves results to shared memory: [row of x, column of y].
  static __device__ __forceinline__ void put(const ExpertParameters& p, const float (&d)[kSums], float* results) {
    const std::uint32_t warp = threadIdx.x >> 5, g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
    const bool gate = p.gated != nullptr;
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float* row = results + (j * 8 + 2 * t + i) * kResultPitch;
        if (gate) {
          row[warp * 8 + g] = activated(d[j * 4 + i], p.activation) * d[j * 4 + 2 + i];
        } else {
          row[warp * 16 + g] = d[j * 4 + i];
          row[warp * 16 + g + 8] = d[j * 4 + 2 + i];
        }
      }
    }
  }

  static __device__ __forceinline__ void store(const ExpertParameters& p, const float* results, std::uint32_t tile,
                                               std::uint32_t first, std::uint32_t columns) {
    const std::uint32_t quads = columns / 4;
    for (std::uint32_t i = threadIdx.x; i < kTile * quads; i += kWarps * 32) {
      const std::uint32_t row = i / quads, column = i % quads * 4;
      if (first + column >= p.n) continue;
      const float4 v = *reinterpret_cast<const float4*>(results + row * kResultPitch + column);
      const std::size_t at = static_cast<std::size_t>(tile * kTile + row) * p.n + first + column;
      if (p.gated != nullptr)
        *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(p.y) + at) =
            make_uint2(pack<false>(v.x, v.y), pack<false>(v.z, v.w));
      else
        *reinterpret_cast<float4*>(static_cast<float*>(p.y) + at) = v;
    }
  }
};

}  // namespace hopper

#define ETNA_EXPERT_GEMM(name, ...)                                                                               \
  extern "C" __global__ void __launch_bounds__(256, 2) name(const __grid_constant__ hopper::ExpertParameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                              \
    hopper::ExpertGemm<__VA_ARGS__>::run(p, memory);                                                              \
  }
