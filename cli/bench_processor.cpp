#include <chrono>
#include <ctime>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <etna/tensor/ops.h>

#include "bench.h"

namespace etna::cli {
namespace {

Measured eager_add(const Sheet& sheet) {
  const Tensor b = ones({256});
  Tensor y = zeros({256});
  const double seconds = seconds_a_call(kCPU, sheet.effort(), [&] { y = add(y, b); });
  return {seconds * 1e6, "256 elements"};
}

/// CPU time over wall-clock time during matrix products.
Measured threads_at_work(const Sheet& sheet) {
  const std::int64_t n = sheet.effort().quick ? 256 : 2048;
  const Tensor a = randn({n, n}), b = randn({n, n});
  matmul(a, b);
  std::vector<double> runs;
  for (int run = 0; run < sheet.effort().repeats; ++run) {
    auto start = std::chrono::steady_clock::now();
    const std::clock_t busy = std::clock();
    std::chrono::duration<double> passed{};
    // std::clock() may have a coarse resolution.
    while (passed.count() < 0.05) {
      matmul(a, b);
      passed = std::chrono::steady_clock::now() - start;
    }
    runs.push_back(static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC / passed.count());
  }
  return {median(std::move(runs)), fmt::format("of {}", fmt::join(sheet.adapter().limits, ", "))};
}

}  // namespace

void bench_processor(Sheet& sheet) {
  sheet.add({.key = "eager_op_us",
             .label = "eager op",
             .unit = "us",
             .meaning = "one of many chained adds: shape inference, allocation and the loop itself"},
            [&] { return eager_add(sheet); });
  bench_memory(sheet);
  sheet.add({.key = "threads",
             .label = "threads at work",
             .unit = "",
             .meaning = "processor time over time passed, during products"},
            [&] { return threads_at_work(sheet); });
}

}  // namespace etna::cli
