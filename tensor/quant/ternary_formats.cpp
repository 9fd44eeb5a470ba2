#include <etna/tensor/quant/internal/ternary_formats.h>

#include <algorithm>
#include <vector>

#include <etna/tensor/quant/internal/block_bytes.h>

// Encoders of ternary formats.
namespace etna::quant {
namespace {

constexpr int kSuper = 256, kI2_S = 128;

/// Quants in base 3: `bytes` bytes, each with `digits` quants of elements with a stride of `bytes`, the first one in
/// the most significant digit.
struct Trits {
  int at, element, bytes, digits;
};
constexpr Trits kTrits[] = {{0, 0, 32, 5}, {32, 160, 16, 5}, {48, 240, 4, 4}};

/// Quants for a scale d >= 0: a value nearer to 0 than to ±d becomes 0.
void ternary_quants(const float* x, int count, float d, unsigned* quants) {
  const float half = 0.5f * d;
  for (int i = 0; i < count; ++i) quants[i] = d > 0.0f ? 1u + (x[i] > half) - (x[i] < -half) : 1u;
}

/// The best f16 scale of a block. For any scale, the nonzero quants belong to the largest magnitudes, so the best scale
/// is the weighted mean of the k largest for some k; every k is tried.
template <int N>
float best_half_scale(const float* x, const float* w) {
  struct Magnitude {
    float value, weight;
  };
  Magnitude sorted[N];
  for (int i = 0; i < N; ++i) sorted[i] = {std::abs(x[i]), w[i]};
  std::sort(sorted, sorted + N, [](const Magnitude& a, const Magnitude& b) { return a.value > b.value; });
  double sum = 0, weight = 0, best_gain = 0, best = 0;
  for (const Magnitude& m : sorted) {
    sum += static_cast<double>(m.weight) * m.value;
    weight += m.weight;
    if (weight > 0 && sum * sum > best_gain * weight) {
      best_gain = sum * sum / weight;
      best = sum / weight;
    }
  }
  return to_f16(static_cast<float>(best));
}

}  // namespace

float ternary_scale(const float* values, const float* weights, std::int64_t period, std::int64_t count) {
  float largest = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  if (!(largest > 0.0f)) return 0.0f;
  // The same with the k largest magnitudes from a histogram: a tensor is too large to sort.
  constexpr int kBins = 4096;
  std::vector<double> sums(kBins, 0.0), totals(kBins, 0.0);
  for (std::int64_t i = 0; i < count; ++i) {
    const double magnitude = std::abs(static_cast<double>(values[i])), weight = weights[i % period];
    const auto bin = static_cast<std::size_t>(std::min<double>(kBins - 1, magnitude / largest * kBins));
    sums[bin] += weight * magnitude;
    totals[bin] += weight;
  }
  double sum = 0, total = 0, best_gain = -1, best = largest;
  for (std::size_t bin = kBins; bin-- > 0;) {
    sum += sums[bin];
    total += totals[bin];
    if (total > 0 && sum > 0 && (sum / total) * sum > best_gain) {
      best_gain = (sum / total) * sum;
      best = sum / total;
    }
  }
  // Each round takes the mean of the values that the previous scale does not round to 0, which never increases the
  // error.
  for (int round = 0; round < 4; ++round) {
    double kept = 0, kept_weight = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double magnitude = std::abs(static_cast<double>(values[i])), weight = weights[i % period];
      if (magnitude <= 0.5 * best) continue;
      kept += weight * magnitude;
      kept_weight += weight;
    }
    if (!(kept_weight > 0) || !(kept > 0) || kept / kept_weight == best) break;
    best = kept / kept_weight;
  }
  return static_cast<float>(best);
}

void TQ1_0::encode(const float* x, const float* w, std::byte* block) {
  const float d = best_half_scale<kSuper>(x, w);
  unsigned quants[kSuper];
  ternary_quants(x, kSuper, d, quants);
  for (const Trits& run : kTrits) {
    for (int i = 0; i < run.bytes; ++i) {
      unsigned number = 0;
      for (int digit = 0; digit < 5; ++digit)
        number = 3 * number + (digit < run.digits ? quants[run.element + digit * run.bytes + i] : 0);
      // Rounded up, so that the decoder's truncation gives back each quant.
      block[run.at + i] = to_byte((number * 256 + 242) / 243);
    }
  }
  store_f16(block + 52, d);
}

void TQ2_0::encode(const float* x, const float* w, std::byte* block) {
  const float d = best_half_scale<kSuper>(x, w);
  unsigned quants[kSuper];
  ternary_quants(x, kSuper, d, quants);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      for (int quarter = 0; quarter < 4; ++quarter) byte |= quants[128 * half + 32 * quarter + i] << 2 * quarter;
      block[32 * half + i] = to_byte(byte);
    }
  }
  store_f16(block + 64, d);
}

void I2_S::encode(const float* x, const float*, std::byte* block) {
  unsigned quants[kI2_S];
  ternary_quants(x, kI2_S, 1.0f, quants);
  for (int i = 0; i < 32; ++i) {
    unsigned byte = 0;
    for (int quarter = 0; quarter < 4; ++quarter) byte |= quants[32 * quarter + i] << (6 - 2 * quarter);
    block[i] = to_byte(byte);
  }
}

}  // namespace etna::quant
