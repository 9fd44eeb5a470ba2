#include <cmath>
#include <cstdint>

#include <fmt/core.h>

#include <etna/tensor/ops.h>

#include "bench.h"

namespace etna::cli {
namespace {

/// The longest gemm to run, in seconds; where one would take longer, a smaller one runs instead.
constexpr double kLongest = 1.0;

double operations(std::int64_t n) { return 2 * std::pow(static_cast<double>(n), 3); }

/// Square gemms of one dtype, smallest first.
class SquareGemms {
 public:
  SquareGemms(const Sheet& sheet, DType dtype) : sheet_(sheet), dtype_(dtype) {}

  /// Operations per second at size n, or at a smaller size if n would take too long.
  Measured measure(std::int64_t n) {
    if (speed_ == 0) time(sheet_.effort().quick ? 32 : 256, {.seconds = 0, .repeats = 1});
    std::int64_t size = n;
    while (size > 1 && operations(size) / speed_ > kLongest) size /= 2;
    const double expected = operations(n) / speed_;
    if (size <= measured_) throw LeftOut(fmt::format("a gemm takes about {:.1f} s", expected));
    measured_ = size;
    time(size, sheet_.effort());
    return {speed_, size == n ? "" : fmt::format("at {}: a gemm of {} takes about {:.1f} s", size, n, expected)};
  }

 private:
  void time(std::int64_t n, const Effort& effort) {
    // Random numbers: zeros multiply faster on some hardware.
    const Tensor a = randn({n, n}).to(sheet_.device(), dtype_), b = randn({n, n}).to(sheet_.device(), dtype_);
    speed_ = operations(n) / seconds_a_call(sheet_.device(), effort, [&] { matmul(a, b); });
  }

  const Sheet& sheet_;
  DType dtype_;
  double speed_ = 0;
  std::int64_t measured_ = 0;
};

}  // namespace

void bench_gemm(Sheet& sheet) {
  const bool cpu = sheet.device().is_cpu();
  std::vector<std::int64_t> sizes{1024, 2048};
  if (!cpu) sizes.push_back(4096);
  if (sheet.effort().quick) sizes = {64, 96};
  for (DType dtype : cpu ? std::vector{f32} : std::vector{f32, f16, bf16}) {
    SquareGemms gemms(sheet, dtype);
    for (std::int64_t n : sizes) {
      sheet.add({.key = fmt::format("gemm_{}_{}_{}", name(dtype), n, cpu ? "gflops" : "tflops"),
                 .label = fmt::format("GEMM {} {}", name(dtype), n),
                 .unit = cpu ? "GFLOP/s" : "TFLOP/s"},
                [&] {
                  Measured measured = gemms.measure(n);
                  measured.value *= cpu ? 1e-9 : 1e-12;
                  return measured;
                });
    }
  }
}

}  // namespace etna::cli
