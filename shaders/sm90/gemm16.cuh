#pragma once
// y = epilogue(a · b) for f16 and bf16 on warpgroup matrix units, f32 sums. Persistent: a block stays on its
// multiprocessor and takes tile after tile. One thread of the first warpgroup keeps the copy engine busy: boxes of 64
// steps of k, through a ring of stages in shared memory, even while the previous tile is being stored. Two warpgroups
// multiply, 128 x 128 each:
//   - TOGETHER: both work on a tile of 256 x 128, with the fewest bytes from the L2 cache per multiplication (which
//     bounds large gemms);
//   - in turns: each takes tiles of 128 x 128 (or x 192); one stores while the other multiplies, which suits short k.
//
// On an H200 4096³ takes 215 µs: 639 TFLOP/s. An early version, TFLOP/s at 4096³ / 6144³ / 16384 x 3072 x 768, one run
// each:
//   256 x 128, four stages                                                        625 / 713 / 411
//   128 x 128, six stages, both warpgroups on a tile                              629 / 649 / 439
// Lost:
//   128 x 256                                                                     635 / 673 / 403
//   256 x 192, three stages                                                       640 / 738 / 415
//     (at 4096³ its 352 tiles leave a third of the third wave idle, and it spills)
//   two to four blocks per multiprocessor, 41 to 46 KiB, own loads                433-507 / 504-573 / 332-397
//   the same by cp.async, under CUDA                                              243-480
//     (too many short requests to the L2 cache, more so with steps of k below 64)
// A cluster (multicast) does not start through Vulkan.
#include "logits.cuh"

namespace hopper {

/// A place in a ring of stages, and the parity of its barriers' phases.
template <int STAGES>
struct Ring {
  std::uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(std::uint32_t steps) {
    steps += stage;
    stage = steps % STAGES, parity ^= steps / STAGES & 1;
  }
};

/// @tparam RESIDENT if not 0, b is one tile of at most so many steps, which stays in shared memory
template <bool F16, bool TOGETHER, bool A_ALONG_K, bool B_ALONG_K, int COLUMNS = 128, int RESIDENT = 0>
struct Gemm16 {
  static constexpr int kRows = TOGETHER ? 256 : 128, kColumns = COLUMNS, kStep = 64,
                       kStages = RESIDENT > 0 ? 3 : TOGETHER ? 4 : COLUMNS > 128 ? 5 : 6;
  static constexpr int kBytesA = kRows * kStep * 2, kBytesB = kColumns * kStep * 2,
                       kStageBytes = kBytesA + (RESIDENT > 0 ? 0 : kBytesB);
  static constexpr int kBlockBytes = 64 * kStep * 2;  ///< of 64 rows (columns)
  static constexpr int kThreads = 384;
  static constexpr int kProducerRegisters = COLUMNS > 128 ? 24 : 40, kConsumerRegisters = COLUMNS > 128 ? 240 : 232;
  static constexpr bool kStaged = COLUMNS <= 128;  ///< some results pass through shared memory
  static constexpr bool kLogits = COLUMNS > 128 && A_ALONG_K && B_ALONG_K;  ///< results may be logits
  static constexpr int kBiases = kStaged ? 2 : 1, kBiasBytes = kBiases * COLUMNS * 4;  ///< of a warpgroup
  static_assert(kBiasBytes + kRowsBytes <= kScratchBytes);
  static constexpr int kWarpBytes = kStaged ? kScratchBytes : kRowsBytes;  ///< what a warp's results pass through
  static constexpr int kGroupBytes = 4 * kWarpBytes + (kStaged ? 0 : kBiasBytes);
  static constexpr int kResident = kStages * kStageBytes, kScratch = kResident + RESIDENT * kBytesB,
                       kBarriers = kScratch + 2 * kGroupBytes;
  static constexpr int kSharedBytes = kBarriers + kStages * 16 + 16;
  static_assert(kSharedBytes <= 232448 - 1024, "shared memory of a multiprocessor, less what is reserved");

  /// Copies the box of `count` rows or columns that starts at `from`.
  template <bool ALONG_K, int COUNT>
  static __device__ __forceinline__ void fetch(std::uint32_t to, const TensorMap& map, int from, int k, int matrix,
                                               std::uint32_t barrier) {
    if constexpr (ALONG_K) {
      copy_box(to, map, k, from, matrix, barrier);
    } else {
#pragma unroll
      for (int i = 0; i < COUNT / 64; ++i) copy_box(to + i * kBlockBytes, map, from + i * 64, k, matrix, barrier);
    }
  }

  /// Boxes of an operand that is stored with one row per k.
  template <int COUNT>
  static __device__ __forceinline__ void fetch_rows(std::uint32_t to, const TensorMap& map, int from, int k, int matrix,
                                                    std::uint32_t barrier) {
    fetch<false, COUNT>(to, map, from, k, matrix, barrier);
  }

  /// The operand of one instruction: 64 rows of a, or all columns of b, and 16 of k.
  template <bool ALONG_K>
  static __device__ __forceinline__ std::uint64_t part(std::uint32_t block, int k16) {
    return ALONG_K ? operand<128>(block + k16 * 32, 1024) : operand<128>(block + k16 * 2048, 1024, kBlockBytes);
  }

  /// Fills a stage: boxes of two matrices. patches.cuh has another.
  struct FetchMatrices {
    const Parameters& p;
    __device__ __forceinline__ void start(const Tile&) {}
    static __device__ __forceinline__ int bytes_a(const Tile&) { return kBytesA; }
    static __device__ __forceinline__ int bytes_b(const Tile&) { return kBytesB; }
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

  /// Where step s of a tile, in stage `stage`, has its columns of b.
  static __device__ __forceinline__ std::uint32_t place_of_b(std::uint32_t shared, std::uint32_t stage,
                                                             std::uint32_t s) {
    return RESIDENT > 0 ? shared + kResident + s * kBytesB : shared + stage * kStageBytes + kBytesA;
  }

  template <typename Fetch>
  static __device__ __forceinline__ void produce(const Parameters& p, std::uint32_t shared, std::uint32_t full,
                                                 std::uint32_t empty, Fetch fetch_stage) {
    Ring<kStages> at;
    for (std::uint32_t i = blockIdx.x; i < tile_count(p); i += gridDim.x) {
      const Tile t = tile_at(p, i);
      fetch_stage.start(t);
      const bool with_b = RESIDENT == 0 || i == blockIdx.x;
      const int bytes = fetch_stage.bytes_a(t) + (with_b ? fetch_stage.bytes_b(t) : 0);
      for (std::uint32_t s = 0; s < t.steps; ++s, at.next()) {
        const std::uint32_t barrier = full + at.stage * 8;
        barrier_wait(empty + at.stage * 8, at.parity ^ 1);  // which the first round does not have to wait for
        barrier_expect(barrier, bytes);
        fetch_stage.a(shared + at.stage * kStageBytes, t, t.first + s, barrier);
        if (with_b) fetch_stage.b(place_of_b(shared, at.stage, s), t, t.first + s, barrier);
      }
    }
  }

  static __device__ __forceinline__ void consume(const Parameters& p, char* memory, std::uint32_t shared,
                                                 std::uint32_t full, std::uint32_t empty, std::uint32_t turns) {
    // By a shuffle, so that the compiler knows that all threads of a warp go one way.
    const std::uint32_t of_all = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    const int group = static_cast<int>(of_all / 4) - 1, warp = of_all % 4;
    const bool speaker = (threadIdx.x & 127) == 0;
    Ring<kStages> at;
    std::uint32_t turn = 0;
    for (std::uint32_t i = blockIdx.x; i < tile_count(p); i += gridDim.x, ++turn) {
      const Tile t = tile_at(p, i);
      if (!TOGETHER && (turn & 1) != group) {
        at.skip(t.steps);
        continue;
      }
      const Path path = path_of<F16>(p);
      const std::uint32_t first_row = t.row * kRows + (TOGETHER ? group * 128 : 0), column = t.column * kColumns;
      char* rows = memory + kScratch + group * kGroupBytes + kBiasBytes + warp * kWarpBytes;
      prefetch_rows<F16, COLUMNS>(p, path, rows, first_row + (threadIdx.x & 127), first_row + warp * 16, column, t);
      // Loaded early, used when the products are done.
      float own_bias[2] = {0, 0};
      if (path != Path::kStaged && p.kinds.flags & kBias) {
#pragma unroll
        for (std::uint32_t i = 0; i < (COLUMNS > 128 ? 2 : 1); ++i) {
          const std::uint32_t at = column + (threadIdx.x & 127) + i * 128;
          if (at < p.n) own_bias[i] = load(p.epilogue.bias, at, p.kinds.bias);
        }
      }
      // A wait can only distinguish a stage's phase from the previous one, so the other warpgroup must have finished
      // all of its own.
      if (!TOGETHER && turn > 0) barrier_wait(turns + (1 - group) * 8, (turn - 1) >> 1 & 1);
      // Warps may still read the last tile's: there are two places, or warps wait for each other before they write.
      float* bias = reinterpret_cast<float*>(memory + kScratch + group * kGroupBytes) +
                    (TOGETHER ? turn : turn >> 1) % kBiases * COLUMNS;
      float d[2][COLUMNS / 2];
      std::uint32_t last = 0;
      for (std::uint32_t s = 0; s < t.steps; ++s, at.next()) {
        const std::uint32_t a = shared + at.stage * kStageBytes + (TOGETHER ? group * 2 * kBlockBytes : 0),
                            b = place_of_b(shared, at.stage, s);
        barrier_wait(full + at.stage * 8, at.parity);
        product_fence();
#pragma unroll
        for (int k = 0; k < kStep / 16; ++k) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            wgmma<F16, !A_ALONG_K, !B_ALONG_K>(d[half], part<A_ALONG_K>(a + half * kBlockBytes, k),
                                               part<B_ALONG_K>(b, k), s > 0 || k > 0);
          }
        }
        product_commit();
        product_wait<1>();
        if (s > 0 && speaker) barrier_arrive(empty + last * 8);
        last = at.stage;
      }
      if (!TOGETHER && speaker) barrier_arrive(turns + group * 8);
      product_wait<0>();
      if (speaker) barrier_arrive(empty + last * 8);
      const std::uint32_t row = first_row + warp * 16;
      if (path != Path::kStaged && p.kinds.flags & kBias) {
        if (kBiases == 1) sync_threads(1 + group, 128);
#pragma unroll
        for (std::uint32_t i = 0, c = threadIdx.x & 127; i < 2; ++i, c += 128) {
          if (c < COLUMNS) bias[c] = own_bias[i];
        }
        sync_threads(1 + group, 128);
      }
      if (path == Path::kActivated) {
        epilogue_of_activation<F16>(p, d, bias, rows, row, column, t);
      } else if (path == Path::kDirect) {
        if (kLogits && p.logits > 0)
          epilogue_logits<F16>(p, d, row, column, t);
        else if (p.kinds.y == kF32)
          epilogue_direct<F16, true>(p, d, bias, row, column, t);
        else
          epilogue_direct<F16, false>(p, d, bias, row, column, t);
      } else if constexpr (kStaged) {
        float* scratch = reinterpret_cast<float*>(memory + kScratch + group * kGroupBytes + warp * kWarpBytes);
        epilogue_tile<4>(p, d, scratch, row, column, t);
      }
    }
  }

  template <typename Fetch>
  static __device__ __forceinline__ void run(const Parameters& p, char* memory, const Fetch& fetch_stage) {
    const std::uint32_t shared = shared_address(memory), full = shared + kBarriers, empty = full + kStages * 8,
                        turns = empty + kStages * 8;
    if (threadIdx.x == 0) {
      for (int group = 0; group < 2; ++group) barrier_init(turns + group * 8, 1);
      for (int i = 0; i < kStages; ++i) {
        barrier_init(full + i * 8, 1);
        barrier_init(empty + i * 8, TOGETHER ? 2 : 1);
      }
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      give_registers<kProducerRegisters>();
      if (threadIdx.x == 0) produce(p, shared, full, empty, fetch_stage);
    } else {
      take_registers<kConsumerRegisters>();
      consume(p, memory, shared, full, empty, turns);
    }
  }
};

}  // namespace hopper

#define ETNA_GEMM16(name, ...)                                                                              \
  extern "C" __global__ void __launch_bounds__(384, 1) name(const __grid_constant__ hopper::Parameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                        \
    using Gemm = hopper::Gemm16<__VA_ARGS__>;                                                               \
    Gemm::run(p, memory, Gemm::FetchMatrices{p});                                                           \
  }
