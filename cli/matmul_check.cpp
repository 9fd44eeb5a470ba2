#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/core.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/tensor.h>

#include "commands.h"

namespace etna::cli {
namespace {

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& v : values) v = distribution(random);
  return values;
}

/// The largest error of an m·k·n matrix product on the device, relative to the largest element. The sizes are prime,
/// the expected sums f64.
double largest_error(Device device) {
  constexpr std::int64_t m = 131, k = 257, n = 67;
  std::vector<float> a = normal(m * k, 1), b = normal(k * n, 2);
  std::vector<float> c = matmul(from_vector(a, {m, k}, device), from_vector(b, {k, n}, device)).to_vector<float>();
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double exact = 0;
      for (std::size_t l = 0; l < k; ++l) exact += double{a[i * k + l]} * double{b[l * n + j]};
      double difference = std::abs(exact - double{c[i * n + j]});
      // NaN compares false with everything, but must not count as exact.
      error = std::isnan(difference) ? INFINITY : std::max(error, difference);
      largest = std::max(largest, std::abs(exact));
    }
  }
  return error / largest;
}

/// GFLOP/s at the largest size, up to 4096, whose matrix product takes at most a fifth of a second.
double speed(Device device, std::int64_t& size) {
  using Clock = std::chrono::steady_clock;
  auto seconds_of = [&](const Tensor& x, int repeats) {
    auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) matmul(x, x);
    synchronize(device);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (size = 256;; size *= 2) {
    Tensor x = full({size, size}, 0.5, {f32, device});
    seconds_of(x, 1);
    double once = seconds_of(x, 1);
    if (once < 0.05 && size < 4096) continue;
    int repeats = std::clamp(static_cast<int>(0.4 / once), 1, 100);
    return 2e-9 * std::pow(static_cast<double>(size), 3) * repeats / seconds_of(x, repeats);
  }
}

}  // namespace

bool check_matmul(Device device, std::string& line) {
  // f32 sums of 257 products vary by about 1e-6 with their order; the error of a wrong kernel is far larger.
  constexpr double allowed = 1e-5;
  // Strict: a matrix product that silently fell back to the CPU would say nothing about the device.
  bool was_strict = strict();
  set_strict(true);
  bool right = false;
  try {
    double error = largest_error(device);
    if (!(error <= allowed)) {
      line = fmt::format("WRONG: off by {:.1e} of the largest element, at most {:.0e} is rounding", error, allowed);
    } else {
      std::int64_t size = 0;
      double gflops = speed(device, size);
      line = fmt::format("right to {:.1e}; {:.0f} GFLOP/s at {} x {} in f32", error, gflops, size, size);
      right = true;
    }
  } catch (const Error& error) {
    line = fmt::format("FAILED: {}", error.what());
  }
  set_strict(was_strict);
  return right;
}

}  // namespace etna::cli
