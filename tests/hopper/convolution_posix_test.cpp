#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator. Its comparisons of signs are CUDA's.
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "../../shaders/sm90/gemm16.cuh"
#include "../../shaders/sm90/patches.cuh"

// Convolutions of images on Hopper GPUs, on the CPU.
namespace hopper {
namespace {

/// x [images, height, width, c], weight [k, size, size, c], y [images, rows, columns, k] of a convolution.
struct Convolution {
  int images, height, width, c, k, size, stride, padding;

  int rows() const { return (height + 2 * padding - size) / stride + 1; }
  int columns() const { return (width + 2 * padding - size) / stride + 1; }
  int taps() const { return size * size; }
  int pixels() const { return images * rows() * columns(); }
  int depth() const { return taps() * c; }
  /// That of x's gradient, of stride 1, from y to x.
  Convolution flipped() const { return {images, rows(), columns(), k, c, size, 1, size - 1 - padding}; }
};

std::vector<std::uint16_t> random_numbers(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> all(static_cast<std::size_t>(count));
  for (std::uint16_t& x : all) x = emulated::to_bf16(normal(random));
  return all;
}

/// Calls use(pixel of y, tap, pixel of x) for all that meet.
template <typename Use>
void each_tap(const Convolution& s, const Use& use) {
  for (int pixel = 0; pixel < s.pixels(); ++pixel) {
    const int image = pixel / (s.rows() * s.columns()), row = pixel / s.columns() % s.rows();
    for (int tap = 0; tap < s.taps(); ++tap) {
      const int y = row * s.stride - s.padding + tap / s.size;
      const int x = pixel % s.columns() * s.stride - s.padding + tap % s.size;
      if (y >= 0 && y < s.height && x >= 0 && x < s.width) use(pixel, tap, (image * s.height + y) * s.width + x);
    }
  }
}

TensorMap matrix(const std::vector<std::uint16_t>& x, int columns, int rows, int leading, int box_rows,
                 int matrices = 1, int stride = 0) {
  return {x.data(), columns, rows, matrices, 1, leading, stride, 0, box_rows};
}
TensorMap image(const std::vector<std::uint16_t>& x, const Convolution& s, int box_pixels) {
  TensorMap map{x.data(), s.c, s.width, s.height, s.images, s.c, s.c * s.width, s.c * s.width * s.height, box_pixels};
  map.first_x = map.first_y = -s.padding;
  map.places_x = s.columns(), map.places_y = s.rows();
  map.stride_x = map.stride_y = s.stride;
  return map;
}

/// @return the result [splits, m, n]
template <typename Gemm, int KIND>
std::vector<float> run(const Convolution& s, const TensorMap& a, const TensorMap& b, int m, int n, int k, U32 splits,
                       U32 blocks, unsigned seed) {
  std::vector<float> y(static_cast<std::size_t>(m) * n * splits, 7);
  PatchParameters p{};
  Parameters& g = p.gemm;
  g.a = a, g.b = b;
  g.epilogue.y = y.data(), g.epilogue.ldy = static_cast<U32>(n), g.epilogue.scale = 1;
  g.kinds.y = kF32, g.kinds.width = 4;
  g.m = static_cast<U32>(m), g.n = static_cast<U32>(n);
  g.tiles_m = (g.m + Gemm::kRows - 1) / Gemm::kRows, g.tiles_n = (g.n + Gemm::kColumns - 1) / Gemm::kColumns;
  g.matrices = 1, g.splits = splits;
  g.steps = static_cast<U32>(k + Gemm::kStep - 1) / Gemm::kStep, g.steps_a_split = (g.steps + splits - 1) / splits;
  g.a_matrix = g.b_matrix = 1, g.group = 8;
  const auto number = [](int x) { return static_cast<U32>(x); };
  p.patches = {number(s.columns()),
               number(s.rows()),
               number(s.stride),
               number(s.stride),
               -s.padding,
               -s.padding,
               number(s.size),
               number(s.taps()),
               1,
               1,
               number(s.c),
               s.taps() - 1,
               -1,
               -s.size};
  emulated::launch(blocks, Gemm::kThreads, Gemm::kSharedBytes, 2, seed,
                   [&](char* memory) { Gemm::run(g, memory, FetchPatches<Gemm, KIND>(p)); });
  return y;
}

const Convolution kImages{2, 13, 11, 64, 48, 3, 1, 1};

template <typename Gemm>
void expect_forward(const Convolution& s, U32 blocks, unsigned seed) {
  const auto x = random_numbers(s.images * s.height * s.width * s.c, 1), w = random_numbers(s.k * s.depth(), 2);
  const auto y = run<Gemm, kForward>(s, image(x, s, Gemm::kRows), matrix(w, s.depth(), s.k, s.depth(), Gemm::kColumns),
                                     s.pixels(), s.k, s.depth(), 1, blocks, seed);
  std::vector<double> wanted(y.size());
  each_tap(s, [&](int pixel, int tap, int from) {
    for (int k = 0; k < s.k; ++k) {
      for (int c = 0; c < s.c; ++c)
        wanted[static_cast<std::size_t>(pixel * s.k + k)] +=
            double{emulated::from_bf16(x[static_cast<std::size_t>(from * s.c + c)])} *
            emulated::from_bf16(w[static_cast<std::size_t>((k * s.taps() + tap) * s.c + c)]);
    }
  });
  EXPECT_LT(distance(y, wanted), 1e-5);
}

class ConvolutionForHopper : public HopperAttention {};

TEST_F(ConvolutionForHopper, MultipliesPatches) {
  expect_forward<Gemm16<false, false, true, true>>(kImages, 2, 1);
  expect_forward<Gemm16<false, true, true, true, 64>>({1, 15, 12, 128, 64, 2, 2, 1}, 1, 2);
}

/// A block has several tiles, of which the first brings the weight.
TEST_F(ConvolutionForHopper, KeepsAWeightInSharedMemory) {
  for (unsigned seed = 0; seed < 3; ++seed)
    expect_forward<Gemm16<false, true, true, true, 64, 9>>(kImages, 1 + seed % 2, seed);
  const Convolution s = kImages, f = s.flipped();
  const auto y = random_numbers(s.pixels() * 64, 3), w = random_numbers(64 * s.depth(), 4);
  Convolution of_y = f;
  of_y.c = 64;
  using Gemm = Gemm16<false, true, true, false, 64, 9>;
  const auto x = run<Gemm, kInput>(of_y, image(y, of_y, Gemm::kRows), matrix(w, s.c, 64, s.depth(), 64, s.taps(), s.c),
                                   of_y.pixels(), s.c, s.taps() * 64, 1, 1, 5);
  std::vector<double> wanted(x.size());
  each_tap(s, [&](int pixel, int tap, int to) {
    for (int k = 0; k < 64; ++k) {
      for (int c = 0; c < s.c; ++c)
        wanted[static_cast<std::size_t>(to * s.c + c)] +=
            double{emulated::from_bf16(y[static_cast<std::size_t>(pixel * 64 + k)])} *
            emulated::from_bf16(w[static_cast<std::size_t>((k * s.taps() + tap) * s.c + c)]);
    }
  });
  EXPECT_LT(distance(x, wanted), 1e-5);
}

/// Nine taps of 64 channels are two tiles of 256 rows and a quarter: the other taps of the third do not exist.
TEST_F(ConvolutionForHopper, MakesTheWeightsGradientAcross) {
  const Convolution s = kImages;
  const auto x = random_numbers(s.images * s.height * s.width * s.c, 5), y = random_numbers(s.pixels() * s.k, 6);
  std::vector<double> wanted(static_cast<std::size_t>(s.depth() * s.k));
  each_tap(s, [&](int pixel, int tap, int from) {
    for (int c = 0; c < s.c; ++c) {
      for (int k = 0; k < s.k; ++k)
        wanted[static_cast<std::size_t>((tap * s.c + c) * s.k + k)] +=
            double{emulated::from_bf16(x[static_cast<std::size_t>(from * s.c + c)])} *
            emulated::from_bf16(y[static_cast<std::size_t>(pixel * s.k + k)]);
    }
  });
  using Gemm = Gemm16<false, true, false, false, 64>;
  const auto parts = run<Gemm, kWeightAcross>(s, image(x, s, Gemm::kStep), matrix(y, s.k, s.pixels(), s.k, Gemm::kStep),
                                              s.depth(), s.k, s.pixels(), 2, 4, 7);
  std::vector<float> sums(wanted.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = parts[i] + parts[sums.size() + i];
  EXPECT_LT(distance(sums, wanted), 1e-5);

  using Along = Gemm16<false, false, false, false>;
  const auto weight = run<Along, kWeight>(s, matrix(y, s.k, s.pixels(), s.k, Along::kStep), image(x, s, Along::kStep),
                                          s.k, s.depth(), s.pixels(), 1, 3, 8);
  std::vector<float> turned(wanted.size());
  for (int k = 0; k < s.k; ++k) {
    for (int i = 0; i < s.depth(); ++i)
      turned[static_cast<std::size_t>(i * s.k + k)] = weight[static_cast<std::size_t>(k * s.depth() + i)];
  }
  EXPECT_LT(distance(turned, wanted), 1e-5);
}

}  // namespace
}  // namespace hopper
