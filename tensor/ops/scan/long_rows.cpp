#include <etna/tensor/ops/scan/internal/long_rows.h>

#include <algorithm>

#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::scan {

bool cumsum_long_rows(const Tensor& x, Tensor& y, int dim, bool reverse) {
  constexpr std::int64_t kLong = 1 << 15, kMostRows = 16, kChunk = 1 << 13;
  if (x.dtype() != f32 || x.dim() == 0 || x.shape()[dim] < kLong) return false;
  const rows::Rows from(x, dim), to(y, dim);
  if (from.step != 1 || to.step != 1 || from.count() > kMostRows) return false;
  const std::int64_t n = from.length, chunks = (n + kChunk - 1) / kChunk;
  cpu::Scratch<double> before(static_cast<std::size_t>(from.count() * chunks));
  const auto each_chunk = [&](const auto& body) {
    cpu::parallel_for(from.count() * chunks, 2, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t) {
        const std::int64_t row = t / chunks, begin = t % chunks * kChunk;
        body(t, x.host<float>() + from.offset(row) + begin, y.host<float>() + to.offset(row) + begin,
             std::min(kChunk, n - begin));
      }
    });
  };
  each_chunk([&](std::int64_t t, const float* in, float*, std::int64_t count) {
    before[static_cast<std::size_t>(t)] = cpu::sum(in, count);
  });
  for (std::int64_t row = 0; row < from.count(); ++row) {
    double total = 0;
    for (std::int64_t c = 0; c < chunks; ++c) {
      double& chunk = before[static_cast<std::size_t>(row * chunks + (reverse ? chunks - 1 - c : c))];
      const double sum = chunk;
      chunk = total;
      total += sum;
    }
  }
  each_chunk([&](std::int64_t t, const float* in, float* out, std::int64_t count) {
    double total = before[static_cast<std::size_t>(t)];
    if (reverse) {
      for (std::int64_t i = count; i-- > 0;) out[i] = static_cast<float>(total += static_cast<double>(in[i]));
    } else {
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(total += static_cast<double>(in[i]));
    }
  });
  return true;
}

}  // namespace etna::scan
