#pragma once
// From accumulators to results in registers, without shared memory, which the products of the other warpgroup need.
// The four lanes that hold a row's sums exchange words, so that each stores 16 bytes; f32 leaves in pairs.
#include "tiles.cuh"

namespace hopper {

/// Whether sums become results where they are, in registers: those in f32, or of the operands' 16-bit type in units of
/// 16 bytes, with no activation; what is added is of the same type.
template <bool F16>
__device__ __forceinline__ bool is_direct(const Parameters& p) {
  const std::uint32_t flags = p.kinds.flags;
  if ((flags & (kPreactivation | kDerivative)) != 0 || flags >> 6 != 0 || p.n % 8 != 0) return false;
  if ((flags & kResidual) != 0 && p.kinds.residual != p.kinds.y) return false;
  if (p.kinds.y == kF32) return p.kinds.width >= 4;
  return p.kinds.width == 8 && (p.kinds.y == kF16) == F16;
}

/// Stores a warp's share of BLOCKS results of 64 rows, 16 rows of each; see is_direct(). Lines leave whole without
/// shared memory, which the products of the other warpgroup need. The empty assembly keeps loads from moving up, where
/// they would need registers.
/// @param bias of the tile's columns, in shared memory
template <bool F16, bool FLOATS, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_direct(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                std::uint32_t row, std::uint32_t column, const Tile& tile) {
  const std::uint32_t lane = threadIdx.x & 31, flags = p.kinds.flags;
  const std::size_t above = (static_cast<std::size_t>(tile.split) * p.matrices + tile.matrix) * p.m;
  float scale = p.epilogue.scale;
  if (flags & kScaleBy) scale *= *p.epilogue.scale_by;
  if (scale != 1) {
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
#pragma unroll
      for (int i = 0; i < SUMS; ++i) d[b][i] *= scale;
    }
  }
  if (flags & kBias) {
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
      const float2 two = *reinterpret_cast<const float2*>(bias + j * 8 + (lane & 3) * 2);
#pragma unroll
      for (int b = 0; b < BLOCKS; ++b) {
        d[b][j * 4] += two.x, d[b][j * 4 + 1] += two.y, d[b][j * 4 + 2] += two.x, d[b][j * 4 + 3] += two.y;
      }
    }
  }
#pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t r = row + b * 64 + h * 8 + (lane >> 2);
      const bool inside = r < p.m;
      if constexpr (FLOATS) {
        float* y = static_cast<float*>(p.epilogue.y) + (above + r) * p.epilogue.ldy + column + (lane & 3) * 2;
        const float* more = static_cast<const float*>(p.epilogue.residual) + (above + r) * p.epilogue.ld_residual +
                            column + (lane & 3) * 2;
#pragma unroll
        for (int j = 0; j < SUMS / 4; j += 4) {
          float2 x[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            x[i] = make_float2(0, 0);
            if ((flags & kResidual) && inside && column + (j + i) * 8 < p.n)
              x[i] = *reinterpret_cast<const float2*>(more + (j + i) * 8);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (inside && column + (j + i) * 8 < p.n)
              *reinterpret_cast<float2*>(y + (j + i) * 8) =
                  make_float2(d[b][(j + i) * 4 + h * 2] + x[i].x, d[b][(j + i) * 4 + h * 2 + 1] + x[i].y);
          }
          asm volatile("" ::: "memory");
        }
      } else {
        const std::uint32_t c = column + (lane & 3) * 8;
        std::uint16_t* y = static_cast<std::uint16_t*>(p.epilogue.y) + (above + r) * p.epilogue.ldy + c;
        const std::uint16_t* more =
            static_cast<const std::uint16_t*>(p.epilogue.residual) + (above + r) * p.epilogue.ld_residual + c;
#pragma unroll
        for (int j = 0; j < SUMS / 16; ++j) {
          const bool there = inside && c + j * 32 < p.n;
          float x[8];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            x[i * 2] = d[b][j * 16 + i * 4 + h * 2], x[i * 2 + 1] = d[b][j * 16 + i * 4 + h * 2 + 1];
          }
          std::uint32_t words[4];
          if (flags & kResidual) {
            uint4 of = make_uint4(0, 0, 0, 0);
            if (there) of = *reinterpret_cast<const uint4*>(more + j * 32);
            words[0] = of.x, words[1] = of.y, words[2] = of.z, words[3] = of.w;
            transpose_of_four(words);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float2 two = unpack<F16>(words[i]);
              x[i * 2] += two.x, x[i * 2 + 1] += two.y;
            }
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) words[i] = pack<F16>(x[i * 2], x[i * 2 + 1]);
          transpose_of_four(words);
          if (there) *reinterpret_cast<uint4*>(y + j * 32) = make_uint4(words[0], words[1], words[2], words[3]);
          asm volatile("" ::: "memory");
        }
      }
    }
  }
}

}  // namespace hopper
