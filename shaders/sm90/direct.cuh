#pragma once
// From accumulators to results in registers, without shared memory, which the products of the other warpgroup need. The
// four lanes that hold a row's sums exchange words, so that each stores 16 bytes of it; f32 leaves in pairs. Where an
// activation takes longer than that anyway, rows pass through a little shared memory instead, which takes a fraction of
// the instructions.
#include "tiles.cuh"

namespace hopper {

/// The paths from sums to results: epilogue_tile(), epilogue_direct() and epilogue_activated().
enum class Path { kStaged, kDirect, kActivated };

/// Results leave from registers if they are f32, or of the operands' 16-bit type in units of 16 bytes. What is added,
/// or kept, or what a derivative is taken at, is of the same type; an activation or its derivative applies to 16-bit
/// results only, with nothing added to them.
template <bool F16>
__device__ __forceinline__ Path path_of(const Parameters& p) {
  const std::uint32_t flags = p.kinds.flags, half = F16 ? kF16 : kBF16;
  const bool activates = (flags & (kPreactivation | kDerivative)) != 0 || flags >> 6 != 0;
  if (p.n % 8 != 0) return Path::kStaged;
  if (!activates && p.kinds.y == kF32) {
    const bool same = (flags & kResidual) == 0 || p.kinds.residual == kF32;
    return same && p.kinds.width >= 4 ? Path::kDirect : Path::kStaged;
  }
  if (p.kinds.width != 8 || p.kinds.y != half) return Path::kStaged;
  if (!activates) return (flags & kResidual) == 0 || p.kinds.residual == half ? Path::kDirect : Path::kStaged;
  const bool has_aux = (flags & (kPreactivation | kDerivative)) != 0;
  return (flags & kResidual) == 0 && (!has_aux || p.kinds.aux == half) ? Path::kActivated : Path::kStaged;
}

/// @param bias of the tile's columns, in shared memory
template <int BLOCKS, int SUMS>
__device__ __forceinline__ void scale_and_add_bias(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias) {
  const std::uint32_t lane = threadIdx.x & 31, flags = p.kinds.flags;
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
}

/// Stores a warp's share of BLOCKS results of 64 rows, 16 rows of each; see path_of(). The empty assembly keeps loads
/// from moving up, where they would need registers.
/// @param bias of the tile's columns, in shared memory
template <bool F16, bool FLOATS, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_direct(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                std::uint32_t row, std::uint32_t column, const Tile& tile) {
  const std::uint32_t lane = threadIdx.x & 31, flags = p.kinds.flags;
  const std::size_t above = (static_cast<std::size_t>(tile.split) * p.matrices + tile.matrix) * p.m;
  scale_and_add_bias(p, d, bias);
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

/// Brings row `row` of a tile of the epilogue's operand to the L2 cache, where it is when the products are done.
template <int COLUMNS>
__device__ __forceinline__ void prefetch_row(const Parameters& p, Path path, std::uint32_t row, std::uint32_t column,
                                             const Tile& tile) {
  if (row >= p.m || path != Path::kActivated || (p.kinds.flags & kDerivative) == 0) return;
  const std::size_t first = (static_cast<std::size_t>(tile.matrix) * p.m + row) * p.epilogue.ld_aux + column;
  prefetch_bytes(static_cast<const std::uint16_t*>(p.epilogue.aux) + first, min(p.n - column, COLUMNS) * 2);
}

/// Copies the sums of part `part`, FIRST <= `part` < END, to x: of 16 rows, four to each run of eight columns, of 32
/// columns. Registers have no index, so a search ends in code that is separate for each place.
template <int FIRST, int END, int BLOCKS, int SUMS>
__device__ __forceinline__ void take_part(float (&x)[16], const float (&d)[BLOCKS][SUMS], int part) {
  if constexpr (END - FIRST > 1) {
    constexpr int kMiddle = (FIRST + END) / 2;
    if (part < kMiddle)
      take_part<FIRST, kMiddle>(x, d, part);
    else
      take_part<kMiddle, END>(x, d, part);
  } else {
    constexpr int kParts = SUMS / 16;
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = d[FIRST / kParts][FIRST % kParts * 16 + i];
  }
}

/// x becomes the activation of x, or, DERIVATIVE, x times its derivative at `at`; one choice serves all elements.
template <bool DERIVATIVE>
__device__ __forceinline__ void activate(float (&x)[16], const float (&at)[16], std::uint32_t activation) {
  switch (activation) {
#define ETNA_ACTIVATION(number, name, ...)                 \
  case number:                                             \
    _Pragma("unroll") for (int i = 0; i < 16; ++i) {       \
      if constexpr (DERIVATIVE)                            \
        x[i] *= activations::name##_backward(1.0f, at[i]); \
      else                                                 \
        x[i] = activations::name(x[i]);                    \
    }                                                      \
    break;
#include "../../tables/activations.def"
#undef ETNA_ACTIVATION
  }
}

constexpr int kRowsBytes = 2048;  ///< of shared memory per warp: two times 16 rows of 32 results of 16 bits

/// Where 16 rows of four runs of eight results have a run, so that eight lanes reach all banks.
__device__ __forceinline__ std::uint32_t run_at(std::uint32_t row, std::uint32_t run) {
  return row * 64 + (run ^ (row >> 1 & 3)) * 16;
}

/// What ACTIVATION is where the kernel looks at its parameters.
constexpr std::uint32_t kAnyActivation = ~0u;

/// As epilogue_direct() for 16-bit results, with an activation, before which kPreactivation stores the sums to `aux`,
/// or with its derivative at `aux`. One loop serves the whole tile, 16 rows of 32 columns at a time: code for each sum
/// would not fit the instruction cache, and a choice of the activation there needs more registers than there are. Rows
/// pass through shared memory, by instructions for matrices: shuffles among lanes are as many instructions as the
/// activation itself. `aux` is read AHEAD turns ahead.
/// @param rows kRowsBytes of shared memory, of this warp alone
template <bool F16, bool DERIVATIVE, int AHEAD, std::uint32_t ACTIVATION, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_activated(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                   char* rows, std::uint32_t row, std::uint32_t column,
                                                   const Tile& tile) {
  constexpr int kParts = SUMS / 16, kAll = BLOCKS * kParts;
  scale_and_add_bias(p, d, bias);
  const std::uint32_t activation = ACTIVATION == kAnyActivation ? p.kinds.flags >> 6 : ACTIVATION;
  const std::uint32_t lane = threadIdx.x & 31;
  const std::uint32_t matrices = shared_address(rows) + run_at(lane & 15, lane >> 4);
  char* const own = rows + run_at(lane >> 2, lane & 3);  // and that of eight rows below
  constexpr std::uint32_t kBelow = 512, kSecond = 1024;
  row += lane >> 2, column += (lane & 3) * 8;
  const std::size_t above = static_cast<std::size_t>(tile.matrix) * p.m;
  auto there = [&](int part, int half) {
    return row + part / kParts * 64 + half * 8 < p.m && column + part % kParts * 32 < p.n;
  };
  auto at_row = [&](void* matrix, std::uint32_t leading, int part, int half) {
    return reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(matrix) +
                                    (above + row + part / kParts * 64 + half * 8) * leading + column +
                                    part % kParts * 32);
  };
  uint4 ahead[AHEAD][2];
  auto load_aux = [&](uint4(&to)[2], int part) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[half] = part < kAll && there(part, half) ? *at_row(p.epilogue.aux, p.epilogue.ld_aux, part, half)
                                                  : make_uint4(0, 0, 0, 0);
    }
  };
  auto store_part = [&](void* matrix, std::uint32_t leading, int part, std::uint32_t from) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 eight = *reinterpret_cast<const uint4*>(own + from + half * kBelow);
      if (there(part, half)) *at_row(matrix, leading, part, half) = eight;
    }
  };
  auto narrow = [&](const float(&x)[16], std::uint32_t to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = pack<F16>(x[half * 8 + i * 2], x[half * 8 + i * 2 + 1]);
      store_matrices((matrices ^ half * 32) + to, words);
    }
  };
  if constexpr (DERIVATIVE) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) load_aux(ahead[i], i);
  }
#pragma unroll 1
  for (int part = 0; part < kAll; ++part) {
    float x[16];
    take_part<0, kAll>(x, d, part);
    if constexpr (DERIVATIVE) {
#pragma unroll
      for (int half = 0; half < 2; ++half) *reinterpret_cast<uint4*>(own + kSecond + half * kBelow) = ahead[0][half];
#pragma unroll
      for (int i = 1; i < AHEAD; ++i) ahead[i - 1][0] = ahead[i][0], ahead[i - 1][1] = ahead[i][1];
      load_aux(ahead[AHEAD - 1], part + AHEAD);
      __syncwarp();
      float at[16];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t words[4];
        load_matrices(words, (matrices ^ half * 32) + kSecond);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 two = unpack<F16>(words[i]);
          at[half * 8 + i * 2] = two.x, at[half * 8 + i * 2 + 1] = two.y;
        }
      }
      activate<true>(x, at, activation);
      narrow(x, 0);
      __syncwarp();
    } else {
      __syncwarp();
      if (p.kinds.flags & kPreactivation) narrow(x, kSecond);
      activate<false>(x, x, activation);
      narrow(x, 0);
      __syncwarp();
      if (p.kinds.flags & kPreactivation) store_part(p.epilogue.aux, p.epilogue.ld_aux, part, kSecond);
    }
    store_part(p.epilogue.y, p.epilogue.ldy, part, 0);
  }
}

/// Gelu by tanh has code of its own, without a choice in the loop.
template <bool F16, bool TOGETHER, int COLUMNS, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_of_activation(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                       char* rows, std::uint32_t row, std::uint32_t column,
                                                       const Tile& tile) {
  constexpr int kAhead = COLUMNS > 128 ? 1 : 2;
  constexpr std::uint32_t kGeluTanh = 3;  // in tables/activations.def
  const bool derivative = p.kinds.flags & kDerivative;
  const bool gelu = p.kinds.flags >> 6 == kGeluTanh;
  if (gelu && derivative)
    epilogue_activated<F16, true, kAhead, kGeluTanh>(p, d, bias, rows, row, column, tile);
  else if (gelu)
    epilogue_activated<F16, false, 1, kGeluTanh>(p, d, bias, rows, row, column, tile);
  else if (derivative)
    epilogue_activated<F16, true, kAhead, kAnyActivation>(p, d, bias, rows, row, column, tile);
  else
    epilogue_activated<F16, false, 1, kAnyActivation>(p, d, bias, rows, row, column, tile);
}

}  // namespace hopper
