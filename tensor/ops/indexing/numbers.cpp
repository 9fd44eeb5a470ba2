#include <etna/tensor/ops/indexing/internal/numbers.h>

#include <algorithm>

#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::indexing {
namespace {

constexpr std::int64_t kParts = 4;

template <typename Place>
void sum_parts(const Place* places, const float* from, std::int64_t count, std::int64_t n, double* sums) {
  cpu::parallel_for(kParts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      double* to = sums + part * n;
      std::fill_n(to, n, 0.0);
      for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i)
        to[places[i]] += static_cast<double>(from[i]);
    }
  });
}

}  // namespace

bool add_numbers(const Tensor& y, const Tensor& places, const Tensor& source) {
  const std::int64_t n = y.numel(), count = places.numel();
  if (y.dtype() != f32 || count < (1 << 15) || count < 8 * n) return false;
  cpu::Scratch<double> sums(static_cast<std::size_t>(kParts * n));
  if (places.dtype() == i32)
    sum_parts(places.host<std::int32_t>(), source.host<float>(), count, n, sums.data());
  else
    sum_parts(places.host<std::int64_t>(), source.host<float>(), count, n, sums.data());
  float* out = y.host<float>();
  cpu::parallel_for(n, rows::kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double sum = out[i];
      for (std::int64_t part = 0; part < kParts; ++part) sum += sums[static_cast<std::size_t>(part * n + i)];
      out[i] = static_cast<float>(sum);
    }
  });
  return true;
}

}  // namespace etna::indexing
