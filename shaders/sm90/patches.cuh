#pragma once
// Convolutions by the kernels of gemm16.cuh and gemm32.cuh: the copy engine gathers the patches of channels-last
// images, so they are never stored in memory. The engine walks over pixels, from row to row and image to image, and
// adds a tap's offset; a box is 128 bytes of channels of as many pixels as a tile has rows (or a step has k). The
// number of channels is a multiple of such a box.
//   kForward  y[pixels, K] = patches of x[pixels, taps C] · weight[K, taps C]ᵀ
//   kInput    x[pixels, C] = patches of y[pixels, taps K] · weight[K, taps, C], the taps in reverse: for a stride of 1
//   kWeight   weight[K, taps C] = y[pixels, K]ᵀ · patches of x[pixels, taps C]
//   kWeightAcross  the transpose of kWeight, for a small K
// There are tiles of 64 columns, too: with 64 channels half of a tile of 128 would be idle. In 16 bits, bytes from the
// L2 cache bound these, so a weight of few steps of k stays in shared memory.
#include "tiles.cuh"

namespace hopper {

/// The geometry of patches; positions are those of a kernel's first tap.
struct Patches {
  std::uint32_t width, height;  ///< places of the kernel in an image
  std::uint32_t stride_x, stride_y;
  std::int32_t first_x, first_y;
  std::uint32_t taps_x, taps;
  std::uint32_t dilation_x, dilation_y;
  std::uint32_t channels;  ///< channels of an image
  std::int32_t weight_first, weight_right, weight_down;  ///< kInput: weight tap of the first tap, and steps to the next
                                                         ///< tap right and down
};
struct PatchParameters {
  Parameters gemm;
  Patches patches;
};

constexpr int kForward = 0, kInput = 1, kWeight = 2, kWeightAcross = 3;

template <typename GEMM, int KIND>
struct FetchPatches {
  static constexpr int kRows = GEMM::kRows, kColumns = GEMM::kColumns, kStep = GEMM::kStep;
  static constexpr int kBox = kStep;           ///< 128 bytes of channels: as many as a step of k
  static constexpr bool kSkips = kStep == 64;  ///< of 16 bits: taps beyond the last are not copied
  const PatchParameters& p;
  int x, y, image;

  __device__ __forceinline__ explicit FetchPatches(const PatchParameters& given) : p(given), x(0), y(0), image(0) {}

  __device__ __forceinline__ void find(std::uint32_t pixel) {
    const Patches& g = p.patches;
    const std::uint32_t row = pixel / g.width, above = row / g.height;
    x = static_cast<int>((pixel - row * g.width) * g.stride_x) + g.first_x;
    y = static_cast<int>((row - above * g.height) * g.stride_y) + g.first_y;
    image = static_cast<int>(above);
  }
  __device__ __forceinline__ void copy(std::uint32_t to, const TensorMap& map, std::uint32_t tap, std::uint32_t channel,
                                       std::uint32_t barrier) const {
    const Patches& g = p.patches;
    const std::uint32_t row = tap / g.taps_x;
    copy_pixels(to, map, static_cast<int>(channel), x, y, image, (tap - row * g.taps_x) * g.dilation_x,
                row * g.dilation_y, barrier);
  }

  __device__ __forceinline__ void start(const Tile& t) {
    if (KIND != kWeight && KIND != kWeightAcross) find(t.row * kRows);
  }
  /// Boxes of COUNT columns of patches, from `first` on, of the pixels from k on. Results of taps beyond the last are
  /// not stored, so what is multiplied there may be anything. In f32 it is something usual: see gemm32.cuh.
  template <int COUNT>
  __device__ __forceinline__ void copy_columns(std::uint32_t to, const TensorMap& map, std::uint32_t first,
                                               std::uint32_t k, std::uint32_t barrier) {
    const std::uint32_t channels = p.patches.channels;
    find(k);
#pragma unroll
    for (int i = 0; i < COUNT / kBox; ++i) {
      const std::uint32_t column = first + i * kBox, tap = column / channels;
      const bool there = tap < p.patches.taps;
      if (kSkips && !there) break;
      copy(to + i * kStep * 128, map, there ? tap : 0, column - tap * channels, barrier);
    }
  }
  /// What copy_columns() copies.
  template <int COUNT>
  __device__ __forceinline__ int bytes_of_columns(std::uint32_t first) const {
    return (kSkips ? min(static_cast<std::uint32_t>(COUNT), p.patches.taps * p.patches.channels - first) : COUNT) * 128;
  }

  __device__ __forceinline__ int bytes_a(const Tile& t) const {
    return KIND == kWeightAcross ? bytes_of_columns<kRows>(t.row * kRows) : kRows * 128;
  }
  __device__ __forceinline__ int bytes_b(const Tile& t) const {
    return KIND == kWeight ? bytes_of_columns<kColumns>(t.column * kColumns) : kColumns * 128;
  }
  __device__ __forceinline__ void a(std::uint32_t to, const Tile& t, std::uint32_t step, std::uint32_t barrier) {
    const std::uint32_t k = step * kStep, channels = p.patches.channels;
    if constexpr (KIND == kWeight) {
      GEMM::template fetch_rows<kRows>(to, p.gemm.a, t.row * kRows, k, 0, barrier);
    } else if constexpr (KIND == kWeightAcross) {
      copy_columns<kRows>(to, p.gemm.a, t.row * kRows, k, barrier);
    } else {
      const std::uint32_t tap = k / channels;
      copy(to, p.gemm.a, tap, k - tap * channels, barrier);
    }
  }
  __device__ __forceinline__ void b(std::uint32_t to, const Tile& t, std::uint32_t step, std::uint32_t barrier) {
    const std::uint32_t k = step * kStep, channels = p.patches.channels;
    if constexpr (KIND == kWeight) {
      copy_columns<kColumns>(to, p.gemm.b, t.column * kColumns, k, barrier);
    } else if constexpr (KIND == kWeightAcross) {
      GEMM::template fetch_rows<kColumns>(to, p.gemm.b, t.column * kColumns, k, 0, barrier);
    } else if constexpr (KIND == kForward) {
      copy_box(to, p.gemm.b, k, t.column * kColumns, 0, barrier);
    } else {
      const Patches& g = p.patches;
      const std::uint32_t tap = k / channels;
      const int row = static_cast<int>(tap / g.taps_x), at = static_cast<int>(tap % g.taps_x);
      GEMM::template fetch_rows<kColumns>(to, p.gemm.b, t.column * kColumns, k - tap * channels,
                                          g.weight_first + row * g.weight_down + at * g.weight_right, barrier);
    }
  }
};

}  // namespace hopper

#define ETNA_CONVOLUTION(name, kind, family, ...)                                            \
  extern "C" __global__ void __launch_bounds__(hopper::family<__VA_ARGS__>::kThreads, 1)    \
      name(const __grid_constant__ hopper::PatchParameters p) {                             \
    extern __shared__ __align__(1024) char memory[];                                        \
    using Gemm = hopper::family<__VA_ARGS__>;                                               \
    Gemm::run(p.gemm, memory, hopper::FetchPatches<Gemm, hopper::kind>(p));                 \
  }
