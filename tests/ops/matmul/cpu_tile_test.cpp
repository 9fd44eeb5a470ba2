#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

// The gemm and the convolutions of builds without other libraries; every build compiles them.
namespace etna::cpu {
namespace {

constexpr float kTileInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_floats(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = values(random);
  return x;
}

/// For a sum of `terms` products below 1, whose roundings are as often up as down.
double bound(std::int64_t terms) { return 1e-6 * (4 + std::sqrt(static_cast<double>(terms))); }

struct Sized {
  Gemm g;
  std::vector<float> a, b, c;

  Sized(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t gap = 0)
      : g{transpose_a, transpose_b, m, n, k, (transpose_a ? m : k) + gap, (transpose_b ? k : n) + gap, n + gap},
        a(random_floats((transpose_a ? k : m) * g.lda, 1)),
        b(random_floats((transpose_b ? n : k) * g.ldb, 2)),
        c(random_floats(m * g.ldc, 3)) {}

  float& at_a(std::int64_t i, std::int64_t k) {
    return a[static_cast<std::size_t>(g.transpose_a ? k * g.lda + i : i * g.lda + k)];
  }
  float& at_b(std::int64_t k, std::int64_t j) {
    return b[static_cast<std::size_t>(g.transpose_b ? j * g.ldb + k : k * g.ldb + j)];
  }
  float& at_c(std::int64_t i, std::int64_t j) { return c[static_cast<std::size_t>(i * g.ldc + j)]; }

  void multiply(float alpha, float beta) { packed().f32(g, alpha, a.data(), b.data(), beta, c.data()); }
  double expected(std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t k = 0; k < g.k; ++k) sum += static_cast<double>(at_a(i, k)) * static_cast<double>(at_b(k, j));
    return sum;
  }
  void check(float alpha, float beta) {
    SCOPED_TRACE(fmt::format("{}{} {}x{}x{}, {} and {}, {}", g.transpose_a, g.transpose_b, g.m, g.n, g.k, alpha, beta,
                             packed().name));
    std::vector<float> before = c;
    if (beta == 0) {
      for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(&at_c(i, 0), g.n, NAN);
    }
    multiply(alpha, beta);
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.ldc; ++j) {
        const float was = before[static_cast<std::size_t>(i * g.ldc + j)];
        if (j >= g.n) {
          ASSERT_EQ(at_c(i, j), was) << "between rows, at " << i << ", " << j;
          continue;
        }
        ASSERT_NEAR(at_c(i, j), alpha * expected(i, j) + beta * was, bound(g.k)) << "at " << i << ", " << j;
      }
    }
  }
};

TEST(PackedGemm, IsTheProductForEverySizeAroundATile) {
  // Tiles have 4 to 12 rows and 4 to 32 columns.
  for (std::int64_t m = 1; m <= 13; ++m) {
    for (std::int64_t n : {1, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33}) {
      for (std::int64_t k : {1, 2, 3, 4, 5, 9}) {
        for (int t = 0; t < 4; ++t) {
          Sized((t & 1) != 0, (t & 2) != 0, m, n, k, t).check(1, 0);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(PackedGemm, IsTheProductAcrossBlocks) {
  for (int t = 0; t < 4; ++t) {
    for (auto [alpha, beta] : {std::pair(1.0f, 0.0f), std::pair(0.5f, 1.0f), std::pair(1.0f, -2.0f)}) {
      Sized((t & 1) != 0, (t & 2) != 0, 245, 33, 520, 2).check(alpha, beta);
      Sized((t & 1) != 0, (t & 2) != 0, 10, 521, 70, 1).check(alpha, beta);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PackedGemm, InfinityTimesZeroIsNoNumber) {
  for (int t = 0; t < 4; ++t) {
    Sized x((t & 1) != 0, (t & 2) != 0, 7, 11, 6);
    for (std::int64_t k = 0; k < 6; ++k) x.at_a(5, k) = 0;
    x.at_b(3, 10) = kTileInfinity;
    x.multiply(1, 0);
    EXPECT_TRUE(std::isnan(x.at_c(5, 10)));
    EXPECT_TRUE(std::isinf(x.at_c(0, 10)));
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < 10; ++j) EXPECT_TRUE(std::isfinite(x.at_c(i, j))) << i << ", " << j;
    }
  }
}

TEST(PackedGemm, AnElementsBitsDoNotDependOnWhereTheMatrixEnds) {
  Sized whole(false, true, 40, 50, 300);
  whole.multiply(0.7f, 0);
  for (std::int64_t m : {1, 6, 39}) {
    for (std::int64_t n : {1, 6, 18, 49}) {
      Sized part(false, true, 40, 50, 300);
      part.g.m = m, part.g.n = n;
      part.multiply(0.7f, 0);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) ASSERT_EQ(part.at_c(i, j), whole.at_c(i, j)) << i << ", " << j;
      }
    }
  }
}

/// x [n, h, w, c], weight [k, kernel, c], y [n, out, k]
struct Images {
  Convolution c;
  std::vector<float> x, weight, y, bias;

  explicit Images(Convolution sizes) : c(sizes) {
    for (std::size_t d = 0; d < 3; ++d) {
      c.out[d] = (c.in[d] + 2 * c.padding[d] - (c.kernel[d] - 1) * c.dilation[d] - 1) / c.stride[d] + 1;
    }
    x = random_floats(c.n * c.in[0] * c.in[1] * c.in[2] * c.c, 1);
    weight = random_floats(c.k * taps() * c.c, 2);
    y = random_floats(c.n * c.out[0] * c.out[1] * c.out[2] * c.k, 3);
    bias = random_floats(c.k, 4);
  }
  std::int64_t taps() const { return c.kernel[0] * c.kernel[1] * c.kernel[2]; }
  StridedWeight strided(const std::vector<float>& w) const {
    const std::int64_t line = c.kernel[2] * c.c, plane = c.kernel[1] * line;
    return {w.data(), {c.kernel[0] * plane, plane, line, c.c, 1}};
  }

  /// Calls visit(x's pixel, weight's tap, y's pixel) for all that meet.
  template <typename Visit>
  void each(const Visit& visit) const {
    for (std::int64_t p = 0; p < c.n * c.out[0] * c.out[1] * c.out[2]; ++p) {
      const std::int64_t at[3] = {p / c.out[2] / c.out[1] % c.out[0], p / c.out[2] % c.out[1], p % c.out[2]};
      for (std::int64_t t = 0; t < taps(); ++t) {
        const std::int64_t tap[3] = {t / c.kernel[2] / c.kernel[1], t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
        std::int64_t pixel = p / c.out[2] / c.out[1] / c.out[0];
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t i = at[d] * c.stride[d] - c.padding[d] + tap[d] * c.dilation[d];
          inside = inside && i >= 0 && i < c.in[d];
          pixel = pixel * c.in[d] + i;
        }
        if (inside) visit(pixel, t, p);
      }
    }
  }

  /// Σ of products for x, weight or y, whichever is `of`.
  std::vector<double> expected(const std::vector<float>& of) const {
    std::vector<double> sums(of.size());
    each([&](std::int64_t pixel, std::int64_t tap, std::int64_t p) {
      for (std::int64_t f = 0; f < c.k; ++f) {
        for (std::int64_t i = 0; i < c.c; ++i) {
          const auto in = static_cast<std::size_t>(pixel * c.c + i), out = static_cast<std::size_t>(p * c.k + f);
          const auto w = static_cast<std::size_t>((f * taps() + tap) * c.c + i);
          if (&of == &x) sums[in] += static_cast<double>(y[out]) * static_cast<double>(weight[w]);
          if (&of == &weight) sums[w] += static_cast<double>(x[in]) * static_cast<double>(y[out]);
          if (&of == &y) sums[out] += static_cast<double>(x[in]) * static_cast<double>(weight[w]);
        }
      }
    });
    return sums;
  }
};

void expect_near(const std::vector<float>& given, const std::vector<double>& expected, double within) {
  for (std::size_t i = 0; i < given.size(); ++i) ASSERT_NEAR(given[i], expected[i], within) << "element " << i;
}

constexpr std::array<std::int64_t, 3> kOnes{1, 1, 1};

std::vector<Convolution> shapes() {
  auto of = [](std::int64_t n, std::int64_t c, std::int64_t k, std::array<std::int64_t, 3> in,
               std::array<std::int64_t, 3> kernel, std::array<std::int64_t, 3> padding,
               std::array<std::int64_t, 3> stride = kOnes, std::array<std::int64_t, 3> dilation = kOnes) {
    Convolution all{.n = n, .c = c, .k = k};
    all.in = in, all.kernel = kernel, all.padding = padding, all.stride = stride, all.dilation = dilation;
    return all;
  };
  return {of(3, 1, 16, {1, 9, 11}, {1, 3, 3}, {0, 1, 1}),
          of(2, 16, 32, {1, 7, 7}, {1, 3, 3}, {0, 1, 1}),
          of(1, 5, 7, {1, 6, 13}, {1, 2, 5}, {0, 0, 3}),
          of(2, 3, 9, {1, 8, 8}, {1, 1, 1}, {0, 0, 0}),
          of(2, 4, 8, {1, 8, 9}, {1, 3, 3}, {0, 0, 0}, {1, 2, 3}),
          of(1, 6, 5, {1, 9, 8}, {1, 3, 2}, {0, 2, 1}, {1, 2, 1}, {1, 2, 1}),
          of(1, 3, 4, {1, 9, 10}, {1, 3, 3}, {0, 2, 2}, kOnes, {1, 1, 2}),
          of(2, 2, 5, {4, 5, 6}, {2, 3, 2}, {1, 1, 0}, {2, 1, 1}),
          of(1, 40, 12, {1, 40, 41}, {1, 3, 3}, {0, 1, 1}),
          of(1, 2, 3, {1, 1, 1}, {1, 3, 3}, {0, 3, 3})};
}

TEST(ConvolutionWithoutLibraries, IsTheSumOfItsProducts) {
  for (const Convolution& sizes : shapes()) {
    Images a(sizes);
    SCOPED_TRACE(fmt::format("{} channels to {}, kernel {} by {}", a.c.c, a.c.k, a.c.kernel[1], a.c.kernel[2]));
    std::vector<double> y = a.expected(a.y);
    for (const bool biased : {false, true}) {
      for (std::size_t i = 0; i < y.size() && biased; ++i) y[i] += a.bias[i % a.bias.size()];
      for (const auto& run : {goes_direct(a.c) ? direct_forward : patches_forward, patches_forward}) {
        std::vector<float> to(a.y.size(), NAN);
        run(a.c, a.x.data(), a.strided(a.weight), biased ? a.bias.data() : nullptr, to.data());
        expect_near(to, y, bound(a.taps() * a.c.c));
      }
    }
  }
}

TEST(ConvolutionWithoutLibraries, GradientsAreTheSumsOfTheirProducts) {
  for (const Convolution& sizes : shapes()) {
    Images a(sizes);
    SCOPED_TRACE(fmt::format("{} channels to {}, kernel {} by {}", a.c.c, a.c.k, a.c.kernel[1], a.c.kernel[2]));
    const std::vector<double> x = a.expected(a.x), weight = a.expected(a.weight);
    for (const auto& run : {input_goes_direct(a.c) ? direct_input : patches_input, patches_input}) {
      std::vector<float> to(a.x.size(), NAN);
      run(a.c, a.y.data(), a.strided(a.weight), to.data());
      expect_near(to, x, bound(a.taps() * a.c.k));
    }
    for (const auto& run : {goes_direct(a.c) ? direct_weight : patches_weight, patches_weight}) {
      std::vector<float> to(a.weight.size(), NAN);
      run(a.c, a.x.data(), a.y.data(), to.data());
      expect_near(to, weight, 2 * bound(static_cast<std::int64_t>(a.y.size())));
    }
  }
}

}  // namespace
}  // namespace etna::cpu
