#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/core.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#include "commands.h"

namespace etna::cli {
namespace {

/// GFLOP/s of square gemms on all threads: the best of those that fit in a tenth of a second. The best, because it
/// should show what the processor can do, not how busy it is.
double gflops(DType dtype, std::int64_t size) {
  using Clock = std::chrono::steady_clock;
  const Tensor a = full({size, size}, 0.5, {dtype, kCPU}), b = full({size, size}, 0.25, {dtype, kCPU});
  matmul(a, b);
  const auto start = Clock::now();
  double best = 0;
  do {
    const auto before = Clock::now();
    matmul(a, b);
    const std::chrono::duration<double> took = Clock::now() - before;
    best = std::max(best, 2e-9 * static_cast<double>(size * size * size) / std::max(took.count(), 1e-9));
  } while (Clock::now() - start < std::chrono::milliseconds(100));
  return best;
}

}  // namespace

std::vector<std::string> product_kernels() {
  constexpr std::int64_t kSize = 1024;
  return {fmt::format("f32  {}, {:.0f} GFLOP/s", cpu::f32_kernels(), gflops(f32, kSize)),
          fmt::format("bf16 {}, {:.0f} GFLOP/s", cpu::bf16_kernels(), gflops(bf16, kSize)),
          fmt::format("f64  {}, {:.0f} GFLOP/s", cpu::f64_kernels(), gflops(f64, kSize))};
}

}  // namespace etna::cli
