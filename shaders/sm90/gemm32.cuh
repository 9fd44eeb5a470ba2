#pragma once
// y = epilogue(a · b) for f32 by bf16 multiplications, at least as accurate as the f32 units
// (docs/decisions/005-f32-by-bf16-parts.md has errors and what was rejected). 89 TFLOP/s at 4096³ on an H200; plain f32
// units reach 46.
//
// A number is exactly the sum of three bf16: high = bf16(x), middle = bf16(x - high), low = x - high - middle. Six of
// the nine products of parts are computed; the others are below 2^-25 of the whole and of either sign. The matrix units
// sum 32 steps of k, small parts first. These sums are then added to f32 sums that round to nearest, because the units
// truncate long sums, always toward 0. The parts of tiny numbers would be subnormal, those of huge ones infinite: if 32
// steps of a tile hold any number outside [2^-100, 2^60) other than 0, plain f32 multiplications and additions compute
// those 32 steps.
//
// The matrix units set the bound: six products at bf16's rate give a sixth of it. Shared memory (90 % as busy) and the
// splitting compete with them. So a separate warpgroup splits b, once per block, and stores the parts. The warpgroups
// that multiply split a in the registers they multiply from. All read f32 as the copy engine wrote it. The order of k
// within 32 steps is free, so each thread takes the steps of a that are contiguous (or, with one row per k, four
// apart), and b is stored in that order.
//
// Tiles of 256 x 64 serve results with few columns, for which half of a 128 x 128 tile would be idle. A warpgroup then
// multiplies two blocks of 64 rows, one after the other.
#include "parts.cuh"
#include "tiles.cuh"

namespace hopper {

template <bool A_ALONG_K, bool B_ALONG_K, int COLUMNS = 128>
struct Gemm32 {
  static constexpr int kBlocks = 128 / COLUMNS;  ///< of 64 rows, per warpgroup that multiplies
  static constexpr int kRows = 128 * kBlocks, kColumns = COLUMNS, kStep = 32, kStages = 4, kPlaneStages = 2;
  static constexpr int kThreads = 512;
  static constexpr int kBytesA = kRows * kStep * 4, kBytesB = kColumns * kStep * 4, kStageBytes = kBytesA + kBytesB;
  static constexpr int kPlaneBytes = kColumns * kStep * 2, kPlanesBytes = 3 * kPlaneBytes;  ///< of b
  static constexpr int kPlanes = kStages * kStageBytes, kScratch = kPlanes + kPlaneStages * kPlanesBytes;
  static constexpr int kBarriers = kScratch + 8 * kScratchBytes,
                       kSharedBytes = kBarriers + kStages * 16 + kPlaneStages * 24;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");

  struct Barriers {
    std::uint32_t full, empty, planes_full, planes_empty;
    volatile std::uint32_t* plain;  ///< per stage of planes: b holds a number that does not split
  };

  /// Byte offset of element (i, k) in an operand: rows of 32 k, or four blocks with rows of 32 i, in 128-byte swizzle.
  template <bool ALONG_K>
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t i, std::uint32_t k) {
    return ALONG_K ? i * 128 + ((k >> 2) ^ (i & 7)) * 16 + (k & 3) * 4
                   : (i >> 5) * 4096 + k * 128 + (((i & 31) >> 2) ^ (k & 7)) * 16 + (i & 3) * 4;
  }
  /// The step of k that is a thread's j-th, for the four threads that share rows of a.
  static __device__ __forceinline__ constexpr std::uint32_t step_of(std::uint32_t thread, std::uint32_t j) {
    return A_ALONG_K ? thread * 8 + j : thread + j * 4;
  }

  template <bool ALONG_K, int COUNT>
  static __device__ __forceinline__ void fetch(std::uint32_t to, const TensorMap& map, int from, int k, int matrix,
                                               std::uint32_t barrier) {
    if constexpr (ALONG_K) {
      copy_box(to, map, k, from, matrix, barrier);
    } else {
#pragma unroll
      for (int i = 0; i < COUNT / 32; ++i) copy_box(to + i * 4096, map, from + i * 32, k, matrix, barrier);
    }
  }

  /// Boxes of an operand that is stored with one row per k.
  template <int COUNT>
  static __device__ __forceinline__ void fetch_rows(std::uint32_t to, const TensorMap& map, int from, int k, int matrix,
                                                    std::uint32_t barrier) {
    fetch<false, COUNT>(to, map, from, k, matrix, barrier);
  }

  /// Fills a stage: boxes of two matrices. patches.cuh has another.
  struct FetchMatrices {
    const Parameters& p;
    __device__ __forceinline__ void start(const Tile&) {}
    __device__ __forceinline__ void a(std::uint32_t to, const Tile& t, std::uint32_t step,
                                      std::uint32_t barrier) const {
      fetch<A_ALONG_K, kRows>(to, p.a, t.row * kRows, static_cast<int>(step * kStep), t.matrix * p.a_matrix, barrier);
    }
    __device__ __forceinline__ void b(std::uint32_t to, const Tile& t, std::uint32_t step,
                                      std::uint32_t barrier) const {
      fetch<B_ALONG_K, kColumns>(to, p.b, t.column * kColumns, static_cast<int>(step * kStep), t.matrix * p.b_matrix,
                                 barrier);
    }
  };

  template <typename Fetch>
  static __device__ __forceinline__ void produce(const Parameters& p, std::uint32_t shared, const Barriers& at,
                                                 Fetch fetch_stage) {
    std::uint32_t it = 0;
    for (std::uint32_t i = blockIdx.x; i < tile_count(p); i += gridDim.x) {
      const Tile t = tile_at(p, i);
      fetch_stage.start(t);
      for (std::uint32_t s = 0; s < t.steps; ++s, ++it) {
        const std::uint32_t stage = it % kStages, to = shared + stage * kStageBytes, barrier = at.full + stage * 8;
        if (it >= kStages) barrier_wait(at.empty + stage * 8, (it / kStages - 1) & 1);
        barrier_expect(barrier, kStageBytes);
        fetch_stage.a(to, t, t.first + s, barrier);
        fetch_stage.b(to + kBytesA, t, t.first + s, barrier);
      }
    }
  }

  /// Splits PART of the steps of k of a column: all with 128 columns, one or the other half with 64.
  /// @return true if any number does not split
  template <int PART>
  static __device__ __forceinline__ bool split_column(const char* b, std::uint32_t n, char* to,
                                                      std::uint32_t planes_empty, bool wait, std::uint32_t phase) {
    constexpr int kChunks = 4 / kBlocks, kFirst = PART * kChunks;
    // Chunk c holds a thread's steps 2c and 2c + 1, for the four threads that share rows of a.
    auto wanted = [](int k) {
      for (int thread = 0; thread < 4; ++thread) {
        for (int j = kFirst * 2; j < (kFirst + kChunks) * 2; ++j) {
          if (static_cast<int>(step_of(thread, j)) == k) return true;
        }
      }
      return false;
    };
    float x[kStep];
    bool any = false;
    if constexpr (B_ALONG_K) {
#pragma unroll
      for (int k = 0; k < kStep; k += 4) {
        if (!wanted(k)) continue;
        const float4 v = *reinterpret_cast<const float4*>(b + place<true>(n, k));
        x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int k = 0; k < kStep; ++k) {
        if (wanted(k)) x[k] = *reinterpret_cast<const float*>(b + place<false>(n, k));
      }
    }
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      if (wanted(k)) any |= outside(x[k]);
    }
    if (wait) barrier_wait(planes_empty, phase);
#pragma unroll
    for (int chunk = kFirst; chunk < kFirst + kChunks; ++chunk) {
      Parts parts[4];
#pragma unroll
      for (int thread = 0; thread < 4; ++thread) {
        parts[thread] = split(x[step_of(thread, chunk * 2)], x[step_of(thread, chunk * 2 + 1)]);
      }
      char* destination = to + (chunk ^ (n >> 1 & 3)) * 16;
      *reinterpret_cast<uint4*>(destination) = make_uint4(parts[0].high, parts[1].high, parts[2].high, parts[3].high);
      *reinterpret_cast<uint4*>(destination + kPlaneBytes) =
          make_uint4(parts[0].middle, parts[1].middle, parts[2].middle, parts[3].middle);
      *reinterpret_cast<uint4*>(destination + 2 * kPlaneBytes) =
          make_uint4(parts[0].low, parts[1].low, parts[2].low, parts[3].low);
    }
    return any;
  }

  /// Splits b: 128 threads, one column each, or two for each of 64.
  static __device__ __forceinline__ void convert(const Parameters& p, char* memory, const Barriers& at) {
    const std::uint32_t n = threadIdx.x & (kColumns - 1);
    std::uint32_t it = 0;
    for (std::uint32_t i = blockIdx.x; i < tile_count(p); i += gridDim.x) {
      const Tile t = tile_at(p, i);
      for (std::uint32_t s = 0; s < t.steps; ++s, ++it) {
        const std::uint32_t stage = it % kStages, planes = it % kPlaneStages;
        const char* b = memory + stage * kStageBytes + kBytesA;
        char* to = memory + kPlanes + planes * kPlanesBytes + n * 64;
        const std::uint32_t planes_empty = at.planes_empty + planes * 8, phase = (it / kPlaneStages - 1) & 1;
        const bool wait = it >= kPlaneStages;
        barrier_wait(at.full + stage * 8, it / kStages & 1);
        bool any;
        if (kBlocks == 1 || (threadIdx.x & 64) == 0) {
          any = split_column<0>(b, n, to, planes_empty, wait, phase);
        } else {
          any = split_column<kBlocks - 1>(b, n, to, planes_empty, wait, phase);
        }
        fence_async();
        any = any_of_threads(1, 128, any);
        if ((threadIdx.x & 127) == 0) {
          at.plain[planes] = any;
          barrier_arrive(at.planes_full + planes * 8);
          barrier_arrive(at.empty + stage * 8);
        }
      }
    }
  }

  /// d += a · b over one stage in plain f32.
  static __device__ __forceinline__ void multiply_plainly(float (&d)[COLUMNS / 2], const char* a, const char* b,
                                                          std::uint32_t row) {
    const std::uint32_t thread = threadIdx.x & 3;
#pragma unroll 1
    for (std::uint32_t k = 0; k < kStep; ++k) {
      const float above = *reinterpret_cast<const float*>(a + place<A_ALONG_K>(row, k)),
                  below = *reinterpret_cast<const float*>(a + place<A_ALONG_K>(row + 8, k));
#pragma unroll
      for (std::uint32_t j = 0; j < COLUMNS / 8; ++j) {
#pragma unroll
        for (std::uint32_t c = 0; c < 2; ++c) {
          const float x = *reinterpret_cast<const float*>(b + place<B_ALONG_K>(j * 8 + thread * 2 + c, k));
          d[j * 4 + c] = fmaf(above, x, d[j * 4 + c]);
          d[j * 4 + 2 + c] = fmaf(below, x, d[j * 4 + 2 + c]);
        }
      }
    }
  }

  static __device__ __forceinline__ void consume(const Parameters& p, char* memory, std::uint32_t shared,
                                                 const Barriers& at) {
    // By a shuffle, so that the compiler knows that all threads of a warp go one way.
    const std::uint32_t of_all = __shfl_sync(~0u, threadIdx.x >> 5, 0), group = of_all / 4 - 2, warp = of_all % 4,
                        lane = threadIdx.x & 31;
    const std::uint32_t first_row = group * 64 * kBlocks + warp * 16;
    const bool speaker = (threadIdx.x & 127) == 0;
    float* scratch = reinterpret_cast<float*>(memory + kScratch) + (group * 4 + warp) * (kScratchBytes / 4);
    std::uint32_t it = 0;
    for (std::uint32_t i = blockIdx.x; i < tile_count(p); i += gridDim.x) {
      const Tile t = tile_at(p, i);
      float d[kBlocks][COLUMNS / 2];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; ++j) d[block][j] = 0;
      }
      for (std::uint32_t s = 0; s < t.steps; ++s, ++it) {
        const std::uint32_t stage = it % kStages, planes = it % kPlaneStages;
        const char* a = memory + stage * kStageBytes;
        barrier_wait(at.full + stage * 8, it / kStages & 1);
        bool any_plain = false;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const std::uint32_t row = first_row + block * 64 + (lane >> 2);
          float x[2][8];  // of two rows
#pragma unroll
          for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int j = 0; j < 8; j += A_ALONG_K ? 4 : 1) {
              const char* from = a + place<A_ALONG_K>(row + h * 8, step_of(lane & 3, j));
              if constexpr (A_ALONG_K) {
                const float4 v = *reinterpret_cast<const float4*>(from);
                x[h][j] = v.x, x[h][j + 1] = v.y, x[h][j + 2] = v.z, x[h][j + 3] = v.w;
              } else {
                x[h][j] = *reinterpret_cast<const float*>(from);
              }
            }
          }
          bool plain = false;
          std::uint32_t parts[kParts][2][4];  // per 16 steps, in the order of the matrix instruction
#pragma unroll
          for (int k = 0; k < 2; ++k) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float first = x[i & 1][k * 4 + (i >> 1) * 2], second = x[i & 1][k * 4 + (i >> 1) * 2 + 1];
              plain |= outside(first) || outside(second);
              const Parts two = split(first, second);
              parts[kHigh][k][i] = two.high, parts[kMiddle][k][i] = two.middle, parts[kLow][k][i] = two.low;
            }
          }
          plain = any_of_threads(2 + group, 128, plain);
          if (block == 0) barrier_wait(at.planes_full + planes * 8, it / kPlaneStages & 1);
          plain = plain || at.plain[planes] != 0;
          any_plain = any_plain || plain;
          if (plain) {
            multiply_plainly(d[block], a, a + kBytesA, row);
            continue;
          }
          if (kBlocks == 1 && speaker) barrier_arrive(at.empty + stage * 8);
          const std::uint32_t b = shared + kPlanes + planes * kPlanesBytes;
          float sum[COLUMNS / 2];
          product_fence();
          multiply_parts<2>([&](int of_a, int of_b, int k, bool add) {
            wgmma(sum, parts[of_a][k], operand<64>(b + of_b * kPlaneBytes + k * 32, 512), add);
          });
          product_commit();
          product_wait<0>();
#pragma unroll
          for (int j = 0; j < COLUMNS / 2; ++j) d[block][j] += sum[j];
        }
        // Plain multiplications read the stage until the end; otherwise all threads have read it when the last vote is
        // over.
        if (any_plain) sync_threads(2 + group, 128);
        if (speaker && (any_plain || kBlocks > 1)) barrier_arrive(at.empty + stage * 8);
        if (speaker) barrier_arrive(at.planes_empty + planes * 8);
      }
      epilogue_tile<2>(p, d, scratch, t.row * kRows + first_row, t.column * kColumns, t);
    }
  }

  template <typename Fetch>
  static __device__ __forceinline__ void run(const Parameters& p, char* memory, const Fetch& fetch_stage) {
    const std::uint32_t shared = shared_address(memory), first = shared + kBarriers;
    const Barriers at{first, first + kStages * 8, first + kStages * 16, first + kStages * 16 + kPlaneStages * 8,
                      reinterpret_cast<volatile std::uint32_t*>(memory + kBarriers + kStages * 16 + kPlaneStages * 16)};
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        barrier_init(at.full + i * 8, 1);
        barrier_init(at.empty + i * 8, 3);
      }
      for (int i = 0; i < kPlaneStages; ++i) {
        barrier_init(at.planes_full + i * 8, 1);
        barrier_init(at.planes_empty + i * 8, 2);
      }
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      give_registers<24>();
      if (threadIdx.x == 0) produce(p, shared, at, fetch_stage);
    } else if (threadIdx.x < 256) {
      give_registers<96>();
      convert(p, memory, at);
    } else {
      take_registers<192>();
      consume(p, memory, shared, at);
    }
  }
};

}  // namespace hopper

#define ETNA_GEMM32(name, ...)                                                                              \
  extern "C" __global__ void __launch_bounds__(512, 1) name(const __grid_constant__ hopper::Parameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                        \
    using Gemm = hopper::Gemm32<__VA_ARGS__>;                                                               \
    Gemm::run(p, memory, Gemm::FetchMatrices{p});                                                           \
  }
