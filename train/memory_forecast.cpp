#include <etna/train/training_step.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

/// Nobody trains with larger ones; also what is said where memory does not depend on the batch.
constexpr std::int64_t kMostBatch = std::int64_t{1} << 40;
/// Two segments of the allocator that are in use in part only.
constexpr std::uint64_t kFragmented = std::uint64_t{128} << 20;

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

/// Bytes as a line through two measurements, per use.
struct Fit {
  std::array<double, kMemoryUses> constant{}, per_sequence{};

  Fit(const BytesByUse& small, const BytesByUse& large, std::int64_t few, std::int64_t many) {
    for (std::size_t i = 0; i < kMemoryUses; ++i) {
      const auto a = static_cast<double>(small[i]), b = static_cast<double>(large[i]);
      per_sequence[i] = std::max(0.0, (b - a) / static_cast<double>(many - few));
      constant[i] = b - per_sequence[i] * static_cast<double>(many);
    }
  }
  double bytes(std::int64_t batch) const { return sum(constant) + sum(per_sequence) * static_cast<double>(batch); }
  /// The largest batch of at most so many bytes.
  std::int64_t batch(double bytes) const {
    const double room = bytes - sum(constant), slope = sum(per_sequence);
    if (room < 0) return 0;
    return static_cast<std::int64_t>(std::min(slope > 0 ? room / slope : HUGE_VAL, static_cast<double>(kMostBatch)));
  }

 private:
  static double sum(const std::array<double, kMemoryUses>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
};

}  // namespace

std::uint64_t MemoryForecast::total() const { return std::accumulate(by_use.begin(), by_use.end(), std::uint64_t{0}); }

void MemoryForecast::print() const {
  fmt::print("memory: about {}\n", str());
  if (fits()) return;
  fmt::print(stderr, "warning: batches of {} need more memory than there is; {}\n", batch,
             largest_batch > 0 ? fmt::format("try --batch {}, and --accumulation for the rest", largest_batch)
                               : "try a smaller model, or --precision bf16");
}

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
  const auto fit = [&](std::int64_t many) {
    const std::int64_t few = many / 2;
    const BytesByUse small = measure(device, few, steps), large = measure(device, many, steps);
    return Fit(small, large, few, many);
  };
  const auto fit_if_it_fits = [&](std::int64_t many) -> std::optional<Fit> {
    try {
      return fit(many);
    } catch (const OutOfMemory&) {
      return std::nullopt;
    }
  };
  const std::int64_t whole = std::max<std::int64_t>(batch, 2);
  std::int64_t many = whole;
  while (many > 16) many = (many + 1) / 2;
  std::optional<Fit> fitted;
  const auto restore = [&] {
    set_random_state(random);
    empty_cache(device);
    reset_peak_memory(device);
  };
  try {
    // Where these do not fit, a batch of 2 decides.
    if (many > 2) fitted = fit_if_it_fits(many);
    if (!fitted) fitted = fit(2);
    const auto room = static_cast<double>(available_memory(device));
    if (many < whole && 1.5 * fitted->bytes(whole) < room) fitted = fit_if_it_fits(whole).value_or(*fitted);
  } catch (...) {
    restore();
    throw;
  }
  restore();

  MemoryForecast forecast{.batch = batch, .available = available_memory(device)};
  for (std::size_t i = 0; i < kMemoryUses; ++i) {
    const double bytes = fitted->constant[i] + fitted->per_sequence[i] * static_cast<double>(batch);
    forecast.by_use[i] = static_cast<std::uint64_t>(std::max(0.0, bytes));
  }
  const std::uint64_t fragmented = std::min(kFragmented, forecast.available / 4);
  forecast.largest_batch = fitted->batch(0.95 * static_cast<double>(forecast.available - fragmented));
  return forecast;
}

}  // namespace etna::training
