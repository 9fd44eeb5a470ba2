#include <etna/train/memory_forecast.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>
#include <etna/train/terminal_text.h>

namespace etna::training {
namespace {

/// Nobody trains with larger ones; also what is said where memory does not depend on the batch.
constexpr std::int64_t kMostBatch = std::int64_t{1} << 40;

/// What the steps add at their peak to what was in use before.
BytesByUse measure(Device device, std::int64_t batch, const std::function<void(std::int64_t)>& steps) {
  synchronize(device);
  empty_cache(device);
  reset_peak_memory(device);
  const BytesByUse before = memory_stats(device).by_use;
  steps(batch);
  BytesByUse needs = memory_stats(device).at_peak;
  for (std::size_t i = 0; i < needs.size(); ++i) needs[i] -= std::min(needs[i], before[i]);
  return needs;
}

/// A line through two points, per use.
struct Line {
  double constant, per_sequence;
};

std::array<Line, kMemoryUses> lines(const BytesByUse& small, const BytesByUse& large, std::int64_t few,
                                    std::int64_t many) {
  std::array<Line, kMemoryUses> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto a = static_cast<double>(small[i]), b = static_cast<double>(large[i]);
    const double slope = std::max(0.0, (b - a) / static_cast<double>(many - few));
    all[i] = {b - slope * static_cast<double>(many), slope};
  }
  return all;
}

}  // namespace

std::uint64_t MemoryForecast::total() const { return std::accumulate(by_use.begin(), by_use.end(), std::uint64_t{0}); }

std::string MemoryForecast::str() const {
  std::string text =
      fmt::format("{}: {}; {} are free, ", readable_bytes(total()), etna::str(by_use), readable_bytes(available));
  if (largest_batch < 1) return text + "too little for any batch";
  if (largest_batch >= kMostBatch) return text + "enough for any batch";
  return text + fmt::format("enough for batches of {}", with_commas(largest_batch));
}

MemoryForecast forecast_memory(Device device, std::int64_t batch,
                               const std::function<void(std::int64_t batch)>& steps) {
  if (batch < 1) throw Error(fmt::format("forecast_memory: the batch is {}", batch));
  const RandomState random = random_state();
  // Large allocations are rounded to eighths of their power of two. A batch divided by a power of two keeps the share
  // that this adds.
  std::int64_t many = std::max<std::int64_t>(batch, 2), few = 1;
  while (many > 16) many = (many + 1) / 2;
  BytesByUse small{}, large{};
  for (;;) {
    few = std::max<std::int64_t>(1, many / 2);
    try {
      small = measure(device, few, steps);
      set_random_state(random);
      large = measure(device, many, steps);
      break;
    } catch (const OutOfMemory&) {
      set_random_state(random);
      if (many == 2) throw;
      many = 2;
    }
  }
  set_random_state(random);
  empty_cache(device);
  reset_peak_memory(device);

  MemoryForecast forecast{.batch = batch, .available = available_memory(device)};
  double constant = 0, per_sequence = 0;
  const auto fitted = lines(small, large, few, many);
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const auto& [base, slope] = fitted[i];
    forecast.by_use[i] = static_cast<std::uint64_t>(std::max(0.0, base + slope * static_cast<double>(batch)));
    constant += base;
    per_sequence += slope;
  }
  const double room = 0.95 * static_cast<double>(forecast.available) - constant;
  const double most = per_sequence > 0 ? room / per_sequence : room >= 0 ? HUGE_VAL : 0;
  forecast.largest_batch =
      static_cast<std::int64_t>(std::clamp(std::floor(most), 0.0, static_cast<double>(kMostBatch)));
  return forecast;
}

}  // namespace etna::training
