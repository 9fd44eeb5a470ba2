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

/// What epilogue_activated() does.
enum class Activated { kValue, kValueKeepingSums, kDerivative };
constexpr std::uint32_t kAnyActivation = ~0u, kGeluTanh = 3;  ///< in tables/activations.def

/// x becomes the activation of x, or x times its derivative at `at`; one choice serves all elements.
template <bool DERIVATIVE, std::uint32_t ACTIVATION>
__device__ __forceinline__ void activate(float (&x)[16], const float (&at)[16], std::uint32_t activation) {
  if constexpr (ACTIVATION == kGeluTanh) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if constexpr (DERIVATIVE)
        x[i] *= activations::fast_gelu_tanh_derivative(at[i]);
      else
        x[i] = activations::fast_gelu_tanh(x[i]);
    }
    return;
  }
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

constexpr int kRowsBytes = 3072;  ///< of shared memory per warp: three times 16 rows of 32 results of 16 bits

/// Where 16 rows of four runs of eight results have a run, so that eight lanes reach all banks.
__device__ __forceinline__ std::uint32_t run_at(std::uint32_t row, std::uint32_t run) {
  return row * 64 + (run ^ (row >> 1 & 3)) * 16;
}

/// 16-bit rows of a warp on their way from sums to memory, or the other way: 16 rows of parts of 32 columns, which pass
/// through shared memory by instructions for matrices, since shuffles among lanes are as many instructions as an
/// activation. A lane has eight columns of two rows.
template <bool F16, int SUMS>
struct RowsOfWarp {
  static constexpr int kParts = SUMS / 16;
  static_assert(kParts % 2 == 0, "parts of successive blocks take turns at two places");
  static constexpr std::uint32_t kPlace = 1024, kBelow = 512;  ///< bytes of 16 rows, and of eight
  const Parameters& p;
  char* own;               ///< this lane's run of the first place
  std::uint32_t matrices;  ///< and what it addresses for instructions
  std::uint32_t row;
  int left;  ///< columns from this lane's first one on
  char *y, *aux;

  /// @param memory kRowsBytes, of this warp alone @param row, column the warp's first ones
  __device__ __forceinline__ RowsOfWarp(const Parameters& parameters, char* memory, std::uint32_t first_row,
                                        std::uint32_t column, const Tile& tile)
      : p(parameters) {
    const std::uint32_t lane = threadIdx.x & 31;
    own = memory + run_at(lane >> 2, lane & 3);
    matrices = shared_address(memory) + run_at(lane & 15, lane >> 4);
    row = first_row + (lane >> 2), column += (lane & 3) * 8;
    left = static_cast<int>(p.n) - static_cast<int>(column);
    const std::size_t at = static_cast<std::size_t>(tile.matrix) * p.m + row;
    y = static_cast<char*>(p.epilogue.y) + (at * p.epilogue.ldy + column) * 2;
    aux = static_cast<char*>(p.epilogue.aux) + (at * p.epilogue.ld_aux + column) * 2;
  }

  /// 64 rows on.
  __device__ __forceinline__ void next_block() {
    row += 64, y += bytes_of_rows(p.epilogue.ldy, 64), aux += bytes_of_rows(p.epilogue.ld_aux, 64);
  }

  /// Begins to copy part `part` of aux, zeros where there is nothing, to one of the last two places: of this block, or,
  /// from kParts on, of the next one, if `more`. Parts are fetched in order, each two ahead of its use.
  __device__ __forceinline__ void fetch(int part, bool more) const {
    const std::uint32_t down = part < kParts ? 0 : 64;
    const int column = part % kParts * 32;
    const char* from = aux + bytes_of_rows(p.epilogue.ld_aux, down) + column * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      copy_16_or_zeros(own + (1 + part % 2) * kPlace + half * kBelow,
                       from + half * bytes_of_rows(p.epilogue.ld_aux, 8),
                       (down == 0 || more) && row + down + half * 8 < p.m && column < left);
    }
    copy_commit();
  }

  /// What fetch() brought, as sums lie.
  __device__ __forceinline__ void take(float (&at)[16], int part) const {
    copy_wait<1>();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t words[4];
      load_matrices(words, (matrices ^ half * 32) + (1 + part % 2) * kPlace);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 two = unpack<F16>(words[i]);
        at[half * 8 + i * 2] = two.x, at[half * 8 + i * 2 + 1] = two.y;
      }
    }
    __syncwarp();
  }

  __device__ __forceinline__ void put(const float (&x)[16], std::uint32_t place) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = pack<F16>(x[half * 8 + i * 2], x[half * 8 + i * 2 + 1]);
      store_matrices((matrices ^ half * 32) + place * kPlace, words);
    }
  }

  __device__ __forceinline__ void store(char* to, std::uint32_t leading, int part, std::uint32_t place) const {
    uint4 eight[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) eight[half] = load_16(own + place * kPlace + half * kBelow);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row + half * 8 < p.m && part * 32 < left)
        *reinterpret_cast<uint4*>(to + half * bytes_of_rows(leading, 8) + part * 64) = eight[half];
    }
  }

  static __device__ __forceinline__ std::size_t bytes_of_rows(std::uint32_t leading, std::uint32_t rows) {
    return static_cast<std::size_t>(leading) * (rows * 2);
  }
};

/// While a tile is multiplied: brings `row` of what its derivative is taken at to the L2 cache, and the first parts of
/// the warp's rows to shared memory.
template <bool F16, int COLUMNS>
__device__ __forceinline__ void prefetch_rows(const Parameters& p, Path path, char* rows, std::uint32_t row,
                                              std::uint32_t first_row, std::uint32_t column, const Tile& tile) {
  if (path != Path::kActivated || (p.kinds.flags & kDerivative) == 0) return;
  if (row < p.m) {
    const std::size_t first = (static_cast<std::size_t>(tile.matrix) * p.m + row) * p.epilogue.ld_aux + column;
    prefetch_bytes(static_cast<const std::uint16_t*>(p.epilogue.aux) + first, min(p.n - column, COLUMNS) * 2);
  }
  const RowsOfWarp<F16, COLUMNS / 2> own(p, rows, first_row, column, tile);
  own.fetch(0, true), own.fetch(1, true);
}

/// As epilogue_direct() for 16-bit results, with an activation, before which sums may be kept in `aux`, or with its
/// derivative at `aux`. A turn of the loop stores 64 rows. With a known activation, its parts are code of their own, so
/// that loads and stores of one work beside the arithmetic of the next; otherwise all parts share one, as code for each
/// would not fit the instruction cache. prefetch_rows() came before.
/// @param memory kRowsBytes of shared memory, of this warp alone
template <bool F16, Activated WHAT, std::uint32_t ACTIVATION, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_activated(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                   char* memory, std::uint32_t row, std::uint32_t column,
                                                   const Tile& tile) {
  using Rows = RowsOfWarp<F16, SUMS>;
  constexpr bool kKnown = ACTIVATION != kAnyActivation;
  [[maybe_unused]] constexpr int kUnrolled = kKnown ? Rows::kParts : 1;
  const std::uint32_t activation = p.kinds.flags >> 6;
  scale_and_add_bias(p, d, bias);
  Rows rows(p, memory, row, column, tile);
#pragma unroll 1
  for (int block = 0; block < BLOCKS; ++block, rows.next_block()) {
#pragma unroll kUnrolled
    for (int part = 0; part < Rows::kParts; ++part) {
      float x[16];
      if constexpr (kKnown) {
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = d[0][part * 16 + i];
      } else {
        take_part<0, BLOCKS * Rows::kParts>(x, d, block * Rows::kParts + part);
      }
      if constexpr (WHAT == Activated::kDerivative) {
        float at[16];
        rows.take(at, part);
        rows.fetch(part + 2, block + 1 < BLOCKS);
        activate<true, ACTIVATION>(x, at, activation);
      } else {
        __syncwarp();
        if constexpr (WHAT == Activated::kValueKeepingSums) rows.put(x, 1);
        activate<false, ACTIVATION>(x, x, activation);
      }
      rows.put(x, 0);
      __syncwarp();
      if constexpr (WHAT == Activated::kValueKeepingSums) rows.store(rows.aux, p.epilogue.ld_aux, part, 1);
      rows.store(rows.y, p.epilogue.ldy, part, 0);
    }
    if constexpr (kKnown && BLOCKS > 1) {
      static_assert(BLOCKS == 2);
#pragma unroll
      for (int i = 0; i < SUMS; ++i) d[0][i] = d[1][i];
    }
  }
}

/// Gelu by tanh has code of its own.
template <bool F16, Activated WHAT, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_of(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                            char* memory, std::uint32_t row, std::uint32_t column, const Tile& tile) {
  if (p.kinds.flags >> 6 == kGeluTanh)
    epilogue_activated<F16, WHAT, kGeluTanh>(p, d, bias, memory, row, column, tile);
  else
    epilogue_activated<F16, WHAT, kAnyActivation>(p, d, bias, memory, row, column, tile);
}
template <bool F16, int BLOCKS, int SUMS>
__device__ __forceinline__ void epilogue_of_activation(const Parameters& p, float (&d)[BLOCKS][SUMS], const float* bias,
                                                       char* memory, std::uint32_t row, std::uint32_t column,
                                                       const Tile& tile) {
  if (p.kinds.flags & kDerivative)
    epilogue_of<F16, Activated::kDerivative>(p, d, bias, memory, row, column, tile);
  else if (p.kinds.flags & kPreactivation)
    epilogue_of<F16, Activated::kValueKeepingSums>(p, d, bias, memory, row, column, tile);
  else
    epilogue_of<F16, Activated::kValue>(p, d, bias, memory, row, column, tile);
}

}  // namespace hopper
