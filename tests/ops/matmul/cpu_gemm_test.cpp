#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/tiling.h>

namespace etna::cpu {
namespace {

std::string str(const Gemm& g) {
  return fmt::format("{}{} {}x{}x{}, rows {} {} {} apart", g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m,
                     g.n, g.k, g.lda, g.ldb, g.ldc);
}

Gemm dense(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t gap = 0) {
  return {transpose_a, transpose_b, m, n, k, (transpose_a ? m : k) + gap, (transpose_b ? k : n) + gap, n + gap};
}

/// The operands of a gemm and their exact sums. All values are representable in bf16, so that all dtypes have the same
/// ones.
struct Operands {
  std::vector<float> a, b, c;
  std::vector<Bf16> a_bits, b_bits;
  std::vector<double> sums;  ///< [m, n]

  explicit Operands(const Gemm& g) : sums(static_cast<std::size_t>(g.m * g.n)) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> values(-1, 1);
    auto fill = [&](std::int64_t rows, std::int64_t ld, std::vector<float>& x, std::vector<Bf16>* bits) {
      for (std::int64_t i = 0; i < rows * ld; ++i) {
        auto upper = std::bit_cast<std::uint32_t>(values(random)) >> 16;
        x.push_back(std::bit_cast<float>(upper << 16));
        if (bits != nullptr) bits->push_back(static_cast<Bf16>(upper));
      }
    };
    fill(g.transpose_a ? g.k : g.m, g.lda, a, &a_bits);
    fill(g.transpose_b ? g.n : g.k, g.ldb, b, &b_bits);
    fill(g.m, g.ldc, c, nullptr);
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t k = 0; k < g.k; ++k) {
        const double by = a[static_cast<std::size_t>(g.transpose_a ? k * g.lda + i : i * g.lda + k)];
        double* row = sums.data() + i * g.n;
        const float* column = b.data() + (g.transpose_b ? k : k * g.ldb);
        for (std::int64_t j = 0, step = g.transpose_b ? g.ldb : 1; j < g.n; ++j) row[j] += by * column[j * step];
      }
    }
  }
};

const std::vector<Gemm> kShapes = {
    dense(false, false, 1, 1, 1),       dense(false, true, 7, 13, 5, 3),     dense(true, false, 64, 31, 77, 1),
    dense(true, true, 33, 65, 129),     dense(false, false, 1, 515, 300),    dense(true, false, 512, 40, 601),
    dense(false, true, 300, 500, 64),   dense(true, false, 24, 17, 3001, 2), dense(false, false, 257, 129, 511),
    dense(true, false, 1024, 8, 530),   dense(true, true, 1024, 96, 37),     dense(false, false, 5, 3, 0, 1),
    dense(false, true, 2, 1031, 67, 1), dense(false, true, 3, 700, 33),      dense(false, true, 4, 64, 300, 5),
    dense(true, true, 5, 129, 40),      dense(true, false, 6, 1100, 21),     dense(false, false, 7, 530, 10, 2),
    dense(false, true, 8, 999, 128),    dense(false, false, 900, 8, 65),     dense(true, true, 700, 7, 64, 3),
    dense(true, false, 1024, 24, 520),  dense(false, false, 24, 1152, 530),  dense(true, false, 640, 640, 20),
    dense(true, false, 1040, 1, 33),    dense(false, true, 600, 3, 70),      dense(true, true, 8, 8, 8),
};

/// Created once per shape.
const Operands& operands_of(std::size_t shape) {
  static const std::vector<Operands> all(kShapes.begin(), kShapes.end());
  return all[shape];
}

/// A gemm in T with its expected result.
template <typename T>
struct Case {
  Gemm g;
  const Operands& operands;
  std::vector<T> a, b, c, expected;
  T alpha, beta;

  Case(std::size_t shape, T alpha_value, T beta_value)
      : g(kShapes[shape]),
        operands(operands_of(shape)),
        a(operands.a.begin(), operands.a.end()),
        b(operands.b.begin(), operands.b.end()),
        c(operands.c.begin(), operands.c.end()),
        expected(c),
        alpha(alpha_value),
        beta(beta_value) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      T *row = expected.data() + i * g.ldc, *before = c.data() + i * g.ldc;
      for (std::int64_t j = 0; j < g.n; ++j) {
        const double kept = beta == T(0) ? 0 : static_cast<double>(beta) * static_cast<double>(row[j]);
        row[j] =
            static_cast<T>(static_cast<double>(alpha) * operands.sums[static_cast<std::size_t>(i * g.n + j)] + kept);
        if (beta == T(0)) before[j] = static_cast<T>(NAN);
      }
    }
  }

  /// Compares c with the expected result, including the elements between rows.
  void check() const {
    const double bound = (4 + std::sqrt(static_cast<double>(g.k))) * (sizeof(T) == 4 ? 1e-6 : 1e-14);
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const double error = std::abs(static_cast<double>(c[i]) - static_cast<double>(expected[i]));
      if (error <= worst) continue;
      worst = error;  // keeps NaN too
      where = i;
      if (std::isnan(error)) break;
    }
    ASSERT_TRUE(worst <= bound) << str(g) << ": element " << where << " is " << c[where] << ", not " << expected[where];
  }
};

/// @param multiply (case), writes its c
template <typename T>
void check_all(const auto& multiply) {
  for (std::size_t shape = 0; shape < kShapes.size(); ++shape) {
    for (auto [alpha, beta] : {std::pair(T(1), T(0)), std::pair(T(0.5), T(1)), std::pair(T(1), T(-2))}) {
      Case<T> x(shape, alpha, beta);
      multiply(x);
      x.check();
    }
  }
}

template <typename T>
void check_library(OneThread<T> multiply) {
  check_all<T>([&](Case<T>& x) {
    if (x.g.k == 0) return gemm_one_thread(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, x.c.data());
    multiply(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, x.c.data());
  });
}

TEST(Gemm, OnAllThreadsIsTheProduct) {
  check_all<float>([](auto& x) { gemm(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, x.c.data()); });
  check_all<double>([](auto& x) { gemm(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, x.c.data()); });
}

/// @param multiply (g, alpha, a, b, beta, c), for bf16
void check_bf16(const auto& multiply) {
  check_all<float>(
      [&](auto& x) { multiply(x.g, x.alpha, x.operands.a_bits.data(), x.operands.b_bits.data(), x.beta, x.c.data()); });
}

TEST(Gemm, OfBf16IsTheProductOfWhatItHolds) {
  SCOPED_TRACE(bf16_kernels());
  check_bf16([](auto&&... of) { gemm(of...); });
  check_bf16([](auto&&... of) { gemm_one_thread(of...); });
  check_bf16([](const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c) {
    if (g.k == 0) return gemm_one_thread(g, alpha, a, b, beta, c);
    multiply_widened(eigen().f32, g, alpha, a, b, beta, c);
  });
}

TEST(Gemm, OfEachLibraryIsTheProduct) {
  for (const Library* library : {&onednn(), &openblas(), &packed(), &eigen()}) {
    SCOPED_TRACE(library->name);
    if (library->f32 != nullptr) check_library(library->f32);
    if (library->f64 != nullptr) check_library(library->f64);
  }
}

TEST(Gemm, FinishSeesEachElementOnceWithItsSumComplete) {
  for (std::size_t shape = 0; shape < kShapes.size(); ++shape) {
    Case<float> x(shape, 1, 0);
    const Gemm& g = x.g;
    std::vector<float> c = x.c;
    gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, c.data(), [&](const ResultTile& p) {
      for (std::int64_t i = p.row; i < p.row + p.rows; ++i) {
        for (std::int64_t j = p.column; j < p.column + p.columns; ++j)
          c[static_cast<std::size_t>(i * g.ldc + j)] += 100;
      }
    });
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) x.expected[static_cast<std::size_t>(i * g.ldc + j)] += 100;
    }
    x.c = c;
    for (std::size_t i = 0; i < c.size(); ++i) {
      ASSERT_NEAR(c[i], x.expected[i], 1e-3) << str(g) << ": element " << i;
    }
  }
}

TEST(Gemm, WhatIsNoNumberStaysInItsRow) {
  for (std::int64_t rows = 2; rows <= 9; ++rows) {
    for (bool transposed : {false, true}) {
      const Gemm g = dense(false, transposed, rows, 4099, 9);
      std::vector<float> a(static_cast<std::size_t>(g.m * g.k), 1), b(static_cast<std::size_t>(g.k * g.n), 1);
      std::vector<float> c(static_cast<std::size_t>(g.m * g.n));
      a[0] = NAN;
      gemm(g, 1.0f, a.data(), b.data(), 0.0f, c.data());
      for (std::int64_t j = 0; j < g.n; ++j) {
        ASSERT_TRUE(std::isnan(c[static_cast<std::size_t>(j)])) << str(g) << ": column " << j;
        for (std::int64_t i = 1; i < g.m; ++i) {
          ASSERT_EQ(c[static_cast<std::size_t>(i * g.n + j)], 9) << str(g) << ": row " << i << ", column " << j;
        }
      }
    }
  }
}

TEST(Gemm, HasTheSameBitsEachTime) {
  for (std::size_t shape = 0; shape < kShapes.size(); ++shape) {
    const Case<float> x(shape, 1, 0);
    const Gemm& g = x.g;
    std::vector<float> first = x.c, again = x.c;
    gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, first.data());
    for (int run = 0; run < 3; ++run) {
      gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, again.data());
      ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0) << str(g);
    }
  }
}

TEST(Gemm, TakesSubnormalNumbersForZeroAndLeavesTheThreadAsItWas) {
  for (std::int64_t m : {24, 2}) {
    for (bool transposed : {false, true}) {
      const std::int64_t n = 24;
      std::vector<float> a(static_cast<std::size_t>(m * n), 1.0f), b(n * n, 1e-39f), c(a.size(), 1.0f);
      b[0] = 1.0f;
      gemm(dense(false, transposed, m, n, n), 1.0f, a.data(), b.data(), 0.0f, c.data());
#if defined(__SSE2__)
      EXPECT_EQ(c[0], 1.0f);
      EXPECT_EQ(c[1], 0.0f) << m << " rows";
#endif
      volatile float tiny = 1e-39f;
      EXPECT_NE(tiny * 0.5f, 0.0f) << "the caller's own numbers are still exact";
    }
  }
}

TEST(GemmTiling, CoversTheProductAndFeedsTheThreads) {
  for (int threads : {1, 2, 3, 8, 16, 64}) {
    for (const Gemm& g : {dense(false, true, 1024, 512, 128), dense(true, false, 128, 128, 1024),
                          dense(false, true, 1024, 33278, 128), dense(false, false, 1024, 128, 33278),
                          dense(true, false, 2048, 512, 4096), dense(false, false, 1, 33278, 512)}) {
      const Tiling tiling = choose_tiling(g, threads);
      SCOPED_TRACE(fmt::format("{} by {} threads: {} x {} x {} in {}", str(g), threads, tiling.rows, tiling.columns,
                               tiling.depth, tiling.splits));
      ASSERT_GT(tiling.rows, 0);
      ASSERT_GT(tiling.columns, 0);
      ASSERT_GT(tiling.depth, 0);
      EXPECT_GE(tiling.depth * tiling.splits, g.k);
      EXPECT_LT(tiling.depth * (tiling.splits - 1), g.k) << "the last piece of k is empty";
      std::int64_t tasks =
          (g.m + tiling.rows - 1) / tiling.rows * ((g.n + tiling.columns - 1) / tiling.columns) * tiling.splits;
      EXPECT_EQ(tasks == 1, threads == 1);
      EXPECT_LE(tasks, 4 * threads);
    }
  }
}

TEST(GemmTiling, SplitsALongSumOfFewResultsOnly) {
  EXPECT_GT(choose_tiling(dense(true, false, 64, 64, 65536), 16).splits, 1);
  EXPECT_EQ(choose_tiling(dense(false, false, 2048, 2048, 65536), 16).splits, 1);
}

}  // namespace
}  // namespace etna::cpu
