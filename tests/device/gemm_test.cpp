#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <etna/device/cpu/gemm/cut.h>
#include <etna/device/cpu/gemm/libraries.h>

namespace etna::cpu {
namespace {

std::string str(const Gemm& g) {
  return fmt::format("{}{} {}x{}x{}, rows {} {} {} apart", g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m,
                     g.n, g.k, g.lda, g.ldb, g.ldc);
}

Gemm dense(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t gap = 0) {
  return {transpose_a, transpose_b, m, n, k, (transpose_a ? m : k) + gap, (transpose_b ? k : n) + gap, n + gap};
}

/// Operands and results of a product, with what it should be.
template <typename T>
struct Case {
  Gemm g;
  std::vector<T> a, b, c, expected;
  T alpha, beta;

  Case(const Gemm& shape, T alpha_value, T beta_value) : g(shape), alpha(alpha_value), beta(beta_value) {
    std::mt19937 random(7);
    std::uniform_real_distribution<T> values(-1, 1);
    auto fill = [&](std::int64_t rows, std::int64_t ld) {
      std::vector<T> x(static_cast<std::size_t>(rows * ld));
      for (T& v : x) v = values(random);
      return x;
    };
    a = fill(g.transpose_a ? g.k : g.m, g.lda);
    b = fill(g.transpose_b ? g.n : g.k, g.ldb);
    c = fill(g.m, g.ldc);
    if (beta == T(0)) {
      for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(c.begin() + i * g.ldc, g.n, static_cast<T>(NAN));
    }
    expect();
  }

  /// From a, b and c as they are now.
  void expect() {
    expected = c;
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += static_cast<double>(at(a, g.transpose_a ? k * g.lda + i : i * g.lda + k)) *
                 static_cast<double>(at(b, g.transpose_b ? j * g.ldb + k : k * g.ldb + j));
        }
        T& y = expected[static_cast<std::size_t>(i * g.ldc + j)];
        double before = beta == T(0) ? 0 : static_cast<double>(beta) * static_cast<double>(y);
        y = static_cast<T>(static_cast<double>(alpha) * sum + before);
      }
    }
  }

  static T at(const std::vector<T>& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }

  /// Holds c against what it should be, elements between rows included.
  void check() const {
    double bound = (4 + std::sqrt(static_cast<double>(g.k))) * (sizeof(T) == 4 ? 1e-6 : 1e-14);
    for (std::size_t i = 0; i < c.size(); ++i) {
      double error = std::abs(static_cast<double>(c[i]) - static_cast<double>(expected[i]));
      ASSERT_TRUE(error <= bound) << str(g) << ": element " << i << " is " << c[i] << ", not " << expected[i];
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
    dense(true, false, 1024, 256, 520), dense(false, false, 96, 1152, 530),  dense(true, false, 640, 640, 70),
    dense(true, false, 1040, 1, 33),    dense(false, true, 600, 3, 70),      dense(true, true, 8, 8, 8),
};

template <typename T>
void check_all(const std::function<void(const Case<T>&, T*)>& multiply) {
  for (const Gemm& g : kShapes) {
    for (auto [alpha, beta] : {std::pair(T(1), T(0)), std::pair(T(0.5), T(1)), std::pair(T(1), T(-2))}) {
      Case<T> x(g, alpha, beta);
      std::vector<T> c = x.c;
      multiply(x, c.data());
      x.c = c;
      x.check();
    }
  }
}

template <typename T>
void check_library(OneThread<T> multiply) {
  check_all<T>([&](const Case<T>& x, T* c) {
    if (x.g.k == 0) return gemm_one_thread(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, c);
    multiply(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, c);
  });
}

TEST(Gemm, OnAllThreadsIsTheProduct) {
  check_all<float>([](const auto& x, float* c) { gemm(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, c); });
  check_all<double>([](const auto& x, double* c) { gemm(x.g, x.alpha, x.a.data(), x.b.data(), x.beta, c); });
}

/// bf16 cuts the digits off; what is left is multiplied exactly.
std::vector<Bf16> cut(std::vector<float>& x) {
  std::vector<Bf16> bits;
  for (float& v : x) {
    bits.push_back(static_cast<Bf16>(std::bit_cast<std::uint32_t>(v) >> 16));
    v = std::bit_cast<float>(static_cast<std::uint32_t>(bits.back()) << 16);
  }
  return bits;
}

/// @param multiply (g, alpha, a, b, beta, c), of bf16
void check_bf16(const auto& multiply) {
  for (const Gemm& g : kShapes) {
    for (auto [alpha, beta] : {std::pair(1.0f, 0.0f), std::pair(0.5f, 1.0f), std::pair(1.0f, -2.0f)}) {
      Case<float> x(g, alpha, beta);
      const std::vector<Bf16> a = cut(x.a), b = cut(x.b);
      x.expect();
      multiply(g, alpha, a.data(), b.data(), beta, x.c.data());
      x.check();
    }
  }
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
  for (const Library* library : {&onednn(), &openblas(), &eigen()}) {
    SCOPED_TRACE(library->name);
    if (library->f32 != nullptr) check_library(library->f32);
    if (library->f64 != nullptr) check_library(library->f64);
  }
}

TEST(Gemm, FinishSeesEachElementOnceWithItsSumComplete) {
  for (const Gemm& g : kShapes) {
    Case<float> x(g, 1, 0);
    std::vector<float> c = x.c;
    gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, c.data(), [&](const Part& p) {
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

TEST(Gemm, HasTheSameBitsEachTime) {
  for (const Gemm& g : kShapes) {
    const Case<float> x(g, 1, 0);
    std::vector<float> first = x.c, again = x.c;
    gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, first.data());
    for (int run = 0; run < 3; ++run) {
      gemm(g, 1.0f, x.a.data(), x.b.data(), 0.0f, again.data());
      ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0) << str(g);
    }
  }
}

TEST(GemmCut, CoversTheProductAndFeedsTheThreads) {
  for (int threads : {1, 2, 3, 8, 16, 64}) {
    for (const Gemm& g : {dense(false, true, 1024, 512, 128), dense(true, false, 128, 128, 1024),
                          dense(false, true, 1024, 33278, 128), dense(false, false, 1024, 128, 33278),
                          dense(true, false, 2048, 512, 4096), dense(false, false, 1, 33278, 512)}) {
      const Cut cut = choose_cut(g, threads);
      SCOPED_TRACE(fmt::format("{} by {} threads: {} x {} x {} in {}", str(g), threads, cut.rows, cut.columns,
                               cut.depth, cut.splits));
      ASSERT_GT(cut.rows, 0);
      ASSERT_GT(cut.columns, 0);
      ASSERT_GT(cut.depth, 0);
      EXPECT_GE(cut.depth * cut.splits, g.k);
      EXPECT_LT(cut.depth * (cut.splits - 1), g.k) << "the last piece of k is empty";
      std::int64_t tasks = (g.m + cut.rows - 1) / cut.rows * ((g.n + cut.columns - 1) / cut.columns) * cut.splits;
      EXPECT_EQ(tasks == 1, threads == 1);
      EXPECT_LE(tasks, 4 * threads);
    }
  }
}

TEST(GemmCut, SplitsALongSumOfFewResultsOnly) {
  EXPECT_GT(choose_cut(dense(true, false, 64, 64, 65536), 16).splits, 1);
  EXPECT_EQ(choose_cut(dense(false, false, 2048, 2048, 65536), 16).splits, 1);
}

}  // namespace
}  // namespace etna::cpu
