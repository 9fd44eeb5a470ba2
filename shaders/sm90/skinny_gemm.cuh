#pragma once
// y = epilogue(x · wᵀ) for up to 32 rows of x in f16 or bf16, and w in the same dtype or in a block format: decoding of
// several sequences at once. Each weight is read once, and decoded once for all rows.
//
// A warp owns 16 rows of w and multiplies them with m16n8k16 instructions, in which w is the left operand. It copies
// its blocks to its own ring of stages in shared memory, so that no warp waits for another, and decodes them from there
// straight to the registers that the instruction reads. The assignment of k to registers is free if both operands
// agree: a thread takes eight neighbouring elements of x at once, and of block formats 64 elements of a row, whose
// scales it decodes once.
//
// The whole of x for the block's range of k is in shared memory, and stays there while the block takes tile after tile.
// If there are too few rows of w, warps of a block share k: `k_warps` of them own the same rows and add up at the end,
// and a block has one tile.
//
// With a gate, a warp owns eight rows of the gate and eight of the gated values, so that the two results to multiply
// are in one thread.
#include "epilogue.cuh"
#include "skinny_formats.cuh"

namespace hopper {

/// Laid out as the host writes them: tensor/ops/quantized/gpu_skinny.cpp.
struct SkinnyParameters {
  const std::uint16_t* x;  ///< [m, k]
  const unsigned char* w;  ///< [n, k], followed by the gated values' weight of equal size for a gate; rows of row_quads
                           ///< · 16 bytes
  Epilogue epilogue;
  EpilogueKinds kinds;
  std::uint32_t* largest;  ///< null, or receives the largest finite magnitude of each block's results, as its bits
  std::uint32_t m, n, ldx, row_quads;
  std::uint32_t steps, steps_a_split;  ///< of k; per block
  std::uint32_t k_warps, steps_a_warp;
  std::uint32_t stages;                ///< of a warp's ring, at least 2
  std::uint32_t gate;                  ///< etna::Activation
};

/// Waits until at most the youngest `pending` groups are in flight.
__device__ __forceinline__ void copy_wait_for_all_but(std::uint32_t pending) {
  if (pending >= 4) return copy_wait<4>();
  if (pending == 3) return copy_wait<3>();
  if (pending == 2) return copy_wait<2>();
  if (pending == 1) return copy_wait<1>();
  copy_wait<0>();
}

/// d[16 x 8] += a[16 x 16] b[16 x 8] by a warp.
template <bool F16>
__device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  if constexpr (F16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

constexpr int kSkinnyWarps = 8;

template <typename Row>
struct SkinnyGemm {
  static constexpr int kChunks = Row::kPitch / 16;  ///< of 16 bytes, in a row's step
  static constexpr int kStageBytes = 16 * Row::kPitch, kCopies = (16 * kChunks + 31) / 32;
  using Sums = float[4][4];  ///< for eight rows of x each: rows g and g + 8 of w, two columns each

  /// Copies 16 rows, tile after tile, step after step.
  struct Fetch {
    const SkinnyParameters& p;
    char* ring;
    std::uint32_t first_step, steps, stride, left;  ///< left: stages still to copy
    std::uint32_t tile, step = 0, slot = 0;
    std::uint32_t quads[kCopies];  ///< relative to a tile's first row, per thread

    __device__ __forceinline__ Fetch(const SkinnyParameters& p, char* ring, std::uint32_t first_step,
                                     std::uint32_t steps, std::uint32_t tile, std::uint32_t stride,
                                     std::uint32_t stages)
        : p(p), ring(ring), first_step(first_step), steps(steps), stride(stride), left(stages), tile(tile) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) quads[i] = row(i) * p.row_quads + chunk(i);
      if (p.gate != 0) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i)
          if (row(i) >= 8) quads[i] += (p.n - 8) * p.row_quads;
      }
    }
    static __device__ __forceinline__ std::uint32_t row(int i) { return (i * 32 + (threadIdx.x & 31)) / kChunks; }
    static __device__ __forceinline__ std::uint32_t chunk(int i) { return (i * 32 + (threadIdx.x & 31)) % kChunks; }

    __device__ __forceinline__ void operator()() {
      if (left > 0) {
        const std::uint32_t rows = p.gate != 0 ? 8 : 16, top = tile * rows;
        const unsigned char* from = p.w + ((first_step + step) * Row::kBytes & ~15u) +
                                    static_cast<std::size_t>(top) * p.row_quads * 16;
        char* to = ring + slot * kStageBytes;
        const bool whole = top + rows <= p.n;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          if (16 * kChunks % 32 != 0 && row(i) >= 16) continue;
          std::uint32_t quad = quads[i];
          // Rows past the last one read the last row.
          if (!whole && top + row(i) % rows >= p.n) quad -= (top + row(i) % rows - (p.n - 1)) * p.row_quads;
          copy_16(to + Row::place(row(i), chunk(i)), from + static_cast<std::size_t>(quad) * 16);
        }
        --left;
        slot = slot + 1 == p.stages ? 0 : slot + 1;
        if (++step == steps) step = 0, tile += stride;
      }
      copy_commit();
    }
  };

  static __device__ __forceinline__ void run(const SkinnyParameters& p, char* memory) {
    const std::uint32_t warp = threadIdx.x >> 5;
    const std::uint32_t n_warps = kSkinnyWarps / p.k_warps, n_warp = warp % n_warps, k_warp = warp / n_warps;
    const std::uint32_t begin = blockIdx.y * p.steps_a_split, steps_here = min(p.steps - begin, p.steps_a_split);
    const std::uint32_t own = k_warp * p.steps_a_warp;  // relative to `begin`
    const std::uint32_t steps = own < steps_here ? min(steps_here - own, p.steps_a_warp) : 0;
    const std::uint32_t rows = p.gate != 0 ? 8 : 16, tiles = (p.n + rows - 1) / rows, stride = gridDim.x * n_warps;
    const std::uint32_t first = blockIdx.x * n_warps + n_warp;
    const std::uint32_t stages = first < tiles ? (tiles - first + stride - 1) / stride * steps : 0;
    char* ring = memory + steps_here * (Row::kElements * 64) + warp * p.stages * kStageBytes;

    Fetch fetch(p, ring, begin + own, steps, first, stride, stages);
#pragma unroll 1
    for (std::uint32_t s = 0; s + 1 < p.stages; ++s) fetch();
#pragma unroll 2
    for (std::uint32_t i = threadIdx.x; i < steps_here * (Row::kElements * 4); i += kSkinnyWarps * 32) {
      const std::uint32_t block = i >> 8, row = i >> 3 & 31, eight = i & 7;
      const std::size_t from = static_cast<std::size_t>(min(row, p.m - 1)) * p.ldx + begin * Row::kElements +
                               block * 64 + eight * 8;
      copy_16_or_zeros(memory + x_place(block, row, eight), p.x + from, row < p.m);
    }
    copy_commit();
    copy_wait<0>();
    __syncthreads();

    std::uint32_t read = 0, most = 0;
    const bool shares = p.k_warps > 1;
#pragma unroll 1
    for (std::uint32_t tile = first; shares || tile < tiles; tile += stride) {
      Sums sums = {};
      char* stage = ring;
#pragma unroll 1
      for (std::uint32_t step = own; step < own + steps; ++step) {
        copy_wait_for_all_but(p.stages - 2);
        __syncwarp();
        fetch();
        stage = ring + read * kStageBytes;
        read = read + 1 == p.stages ? 0 : read + 1;
        multiply_step(sums, memory, stage, step, begin + step);
      }
      float* scratch = reinterpret_cast<float*>(stage);  // free until the next copy
      if (shares) {
        if (!add_up(sums, memory, n_warps)) break;
        scratch = reinterpret_cast<float*>(memory) + (kSkinnyWarps - n_warps + warp) * kScratch;
      }
      __syncwarp();
      put(sums, scratch);
      __syncwarp();
      most = max(most, store(p, scratch, tile));
      if (shares) break;
    }
    if (p.largest != nullptr) {
      copy_wait<0>();
      __syncthreads();  // x and the rings are no longer read
      auto* of_warps = reinterpret_cast<std::uint32_t*>(memory);
      most = __reduce_max_sync(~0u, most);
      if ((threadIdx.x & 31) == 0) of_warps[warp] = most;
      __syncthreads();
      for (int i = 1; i < kSkinnyWarps; ++i) most = max(most, of_warps[i]);
      if (threadIdx.x == 0) p.largest[blockIdx.x] = most;
    }
  }

  /// Adds a step, which starts at `step` in x and at `of_row` in a row of w, to the sums.
  static __device__ __forceinline__ void multiply_step(Sums& sums, const char* x, const char* stage,
                                                       std::uint32_t step, std::uint32_t of_row) {
    const std::uint32_t g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3, first = Row::x_first(step, g, t);
    Row upper, lower;
    upper.load(stage + g * Row::kPitch, g, t, of_row);
    lower.load(stage + (g + 8) * Row::kPitch, g, t, of_row);
#pragma unroll
    for (int j = 0; j < Row::kEights; ++j) {
      const char* at = x + (first ^ Row::x_flip(j) * 16) + Row::x_block(j) * 4096;
      uint4 eights[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) eights[c] = *reinterpret_cast<const uint4*>(at + c * 1024);
      const uint4 u = upper.eight(j), l = lower.eight(j);
      const std::uint32_t one[4] = {u.x, l.x, u.y, l.y}, two[4] = {u.z, l.z, u.w, l.w};
#pragma unroll
      for (int c = 0; c < 4; ++c) multiply<Row::kF16>(sums[c], one, eights[c].x, eights[c].y);
#pragma unroll
      for (int c = 0; c < 4; ++c) multiply<Row::kF16>(sums[c], two, eights[c].z, eights[c].w);
    }
  }

  /// Adds up the sums of the warps that share k. @return true if this warp has received them
  static __device__ __forceinline__ bool add_up(Sums& sums, char* memory, std::uint32_t n_warps) {
    const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float* scratch = reinterpret_cast<float*>(memory);
    copy_wait<0>();
    __syncthreads();  // x and the rings are no longer read
    if (warp >= n_warps) {
#pragma unroll
      for (int s = 0; s < 16; ++s) scratch[(warp - n_warps) * kScratch + s * 32 + lane] = sums[s / 4][s % 4];
    }
    __syncthreads();
    if (warp >= n_warps) return false;
#pragma unroll 1
    for (std::uint32_t other = warp; other < kSkinnyWarps - n_warps; other += n_warps) {
#pragma unroll
      for (int s = 0; s < 16; ++s) sums[s / 4][s % 4] += scratch[other * kScratch + s * 32 + lane];
    }
    return true;
  }

  static constexpr int kScratch = 16 * 32;  ///< floats of a warp's results; a stage is large enough for them
  static_assert(kStageBytes >= kScratch * 4);

  /// Position in the scratch of the result for a row of x and a column of y.
  static __device__ __forceinline__ std::uint32_t scratch_place(std::uint32_t row, std::uint32_t column) {
    return row * 16 + (column ^ (row >> 1 & 3) * 4);
  }
  /// Moves results to the scratch. This keeps the epilogue's code small: a gemm may finish before 64 KiB of code have
  /// been loaded from memory.
  static __device__ __forceinline__ void put(const Sums& sums, float* scratch) {
    const std::uint32_t g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
#pragma unroll
    for (int s = 0; s < 16; ++s)
      scratch[scratch_place(s / 4 * 8 + 2 * t + s % 2, s / 2 % 2 * 8 + g)] = sums[s / 4][s % 4];
  }

  /// @return the largest finite magnitude of the stored results
  static __device__ __forceinline__ std::uint32_t store(const SkinnyParameters& p, const float* scratch,
                                                        std::uint32_t tile) {
    const std::uint32_t lane = threadIdx.x & 31, flags = p.kinds.flags;
    const float scale = p.epilogue.scale * (flags & kScaleBy ? *p.epilogue.scale_by : 1.0f);
    const bool gate = p.gate != 0, plain = !gate && (flags & ~(kScale | kScaleBy)) == 0 && p.kinds.y == kF32;
    if (plain && p.kinds.width == 4 && tile * 16 + 16 <= p.n) {
      float* y = static_cast<float*>(p.epilogue.y) + tile * 16 + lane % 4 * 4;
#pragma unroll
      for (std::uint32_t row = lane / 4; row < 32; row += 8) {
        const float4 v = *reinterpret_cast<const float4*>(scratch + scratch_place(row, lane % 4 * 4));
        if (row < p.m)
          *reinterpret_cast<float4*>(y + (static_cast<std::size_t>(blockIdx.y) * p.m + row) * p.epilogue.ldy) =
              make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
      }
      return 0;
    }
    const std::uint32_t columns = gate ? 8 : 16, own = lane % columns, column = tile * columns + own;
    if (column >= p.n) return 0;
    const float bias = flags & kBias ? load(p.epilogue.bias, column, p.kinds.bias) : 0.0f;
    const float bias_b = gate && (flags & kBias) ? load(p.epilogue.bias, p.n + column, p.kinds.bias) : 0.0f;
    std::uint32_t most = 0;
#pragma unroll 1
    for (std::uint32_t row = lane / columns; row < p.m; row += 32 / columns) {
      const std::size_t y_row = static_cast<std::size_t>(blockIdx.y) * p.m + row;
      float v = scratch[scratch_place(row, own)] * scale + bias;
      if (gate) v = activated(v, p.gate) * (scratch[scratch_place(row, own + 8)] * scale + bias_b);
      if (flags & kResidual)
        v += load(p.epilogue.residual, y_row * p.epilogue.ld_residual + column, p.kinds.residual);
      hopper::store(p.epilogue.y, y_row * p.epilogue.ldy + column, p.kinds.y, v);
      const std::uint32_t bits = __float_as_uint(v) & 0x7fffffffu;
      if (bits < 0x7f800000u) most = max(most, bits);
    }
    return most;
  }
};

}  // namespace hopper

#define ETNA_SKINNY_GEMM(name, Row)                                                                               \
  extern "C" __global__ void __launch_bounds__(256, 1) name(const __grid_constant__ hopper::SkinnyParameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                              \
    hopper::SkinnyGemm<hopper::Row>::run(p, memory);                                                              \
  }
