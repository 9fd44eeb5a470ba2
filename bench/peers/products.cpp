// Times one f32 gemm in Eigen and in OpenBLAS, each called as a program that links it would call it. `peer_products M N
// K [--transpose-a] [--transpose-b]` prints one line for each library, "NAME\tSECONDS". bench_cpu runs it as a separate
// process: there the libraries choose their own threads and code, while inside the library Etna makes these choices.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>

namespace {

using Clock = std::chrono::steady_clock;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Options {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  double seconds = 0.2;  ///< per repeat
  int repeats = 3;
};

double seconds_of(const std::function<void()>& work, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) work();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

double median_seconds(const Options& o, const std::function<void()>& product) {
  product();
  const double once = seconds_of(product, 1);
  const int calls = static_cast<int>(std::clamp(o.seconds / once, 1.0, 1e5));
  std::vector<double> runs;
  for (int i = 0; i < o.repeats; ++i) runs.push_back(seconds_of(product, calls));
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

Matrix normal(std::int64_t rows, std::int64_t columns) {
  std::mt19937 generator(1);
  std::normal_distribution<float> values;
  return Matrix::NullaryExpr(rows, columns, [&] { return values(generator); });
}

/// Uses one thread or all threads, whichever is faster: Eigen's threads wait in busy loops, which on a busy machine
/// cost more than the threads gain.
void eigen(const Options& o, const Matrix& a, const Matrix& b, Matrix& c) {
  auto product = [&] {
    if (o.transpose_a && o.transpose_b)
      c.noalias() = a.transpose() * b.transpose();
    else if (o.transpose_a)
      c.noalias() = a.transpose() * b;
    else if (o.transpose_b)
      c.noalias() = a * b.transpose();
    else
      c.noalias() = a * b;
  };
  const int threads = Eigen::nbThreads();
  double seconds = median_seconds(o, product);
  if (threads > 1) {
    Eigen::setNbThreads(1);
    seconds = std::min(seconds, median_seconds(o, product));
  }
  fmt::print("Eigen {}.{}.{} ({}, up to {} threads)\t{}\n", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
             EIGEN_MINOR_VERSION, Eigen::SimdInstructionSetsInUse(), threads, seconds);
}

void openblas(const Options& o, const Matrix& a, const Matrix& b, Matrix& c) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (library == nullptr) return;
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  if (sgemm == nullptr) return;
  auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  auto threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  const double seconds = median_seconds(o, [&] {
    sgemm(kRowMajor, o.transpose_a ? kTransposed : kPlain, o.transpose_b ? kTransposed : kPlain, narrow(o.m),
          narrow(o.n), narrow(o.k), 1, a.data(), narrow(a.cols()), b.data(), narrow(b.cols()), 0, c.data(),
          narrow(c.cols()));
  });
  fmt::print("OpenBLAS ({}, {} threads)\t{}\n", core == nullptr ? "?" : core(), threads == nullptr ? 0 : threads(),
             seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times one f32 product by Eigen and by OpenBLAS, where that is installed."};
  Options o;
  for (auto [name, size] : {std::pair{"M", &o.m}, std::pair{"N", &o.n}, std::pair{"K", &o.k}}) {
    app.add_option(name, *size, "size")->required()->check(CLI::PositiveNumber);
  }
  app.add_flag("--transpose-a", o.transpose_a, "a is stored as [K, M]");
  app.add_flag("--transpose-b", o.transpose_b, "b is stored as [N, K]");
  app.add_option("--seconds", o.seconds, "a repeat takes at least")->check(CLI::NonNegativeNumber);
  app.add_option("--repeats", o.repeats, "of which the median counts")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Matrix a = o.transpose_a ? normal(o.k, o.m) : normal(o.m, o.k);
  const Matrix b = o.transpose_b ? normal(o.n, o.k) : normal(o.k, o.n);
  Matrix c = Matrix::Zero(o.m, o.n);
  eigen(o, a, b, c);
  openblas(o, a, b, c);
}
