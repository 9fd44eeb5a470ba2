#include <algorithm>
#include <vector>

#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/families.h>

// Three values, -d, 0 and d, stored as codes 0, 1 and 2.
//   TQ1_0     256: five codes a byte in base 3 (52 bytes), f16 d
//   TQ2_0     256: two bits a code (64 bytes), f16 d
//   I2_S      128: two bits a code (32 bytes); one f32 d for the tensor, behind all blocks (BitNet's x86 layout)
namespace etna::quant {
namespace {

constexpr int kSuper = 256, kBytesTQ1_0 = 54, kBytesTQ2_0 = 66;
constexpr int kI2_S = 128, kBytesI2_S = 32;

/// Codes in base 3: `bytes` bytes, each with `digits` codes of elements that lie `bytes` apart, the first on top.
struct Trits {
  int at, element, bytes, digits;
};
constexpr Trits kTrits[] = {{0, 0, 32, 5}, {32, 160, 16, 5}, {48, 240, 4, 4}};

/// The bytes are copied first: as far as the compiler knows, `out` may be the block, and loops over both would not
/// vectorize.
template <int Bytes, int Digits>
void decode_trits(const std::byte* from, float d, float* out) {
  std::uint8_t bytes[Bytes];
  std::memcpy(bytes, from, Bytes);
  // A byte is the fraction 0.code code code ... in base 3, times 256: multiplying by 3 moves a code before the point.
  int power = 1;
  for (int digit = 0; digit < Digits; ++digit, power *= 3) {
    for (int i = 0; i < Bytes; ++i) {
      const int fraction = bytes[i] * power & 0xff;
      out[digit * Bytes + i] = static_cast<float>((fraction * 3 >> 8) - 1) * d;
    }
  }
}

void decode_one_tq1_0(const std::byte* block, float* out) {
  const float d = load_half(block + 52);
  decode_trits<32, 5>(block, d, out);
  decode_trits<16, 5>(block + 32, d, out + 160);
  decode_trits<4, 4>(block + 48, d, out + 240);
}

void decode_one_tq2_0(const std::byte* block, float* out) {
  const float d = load_half(block + 64);
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i) {
        const unsigned code = byte_at(block, 32 * half + i) >> 2 * quarter & 3u;
        out[128 * half + 32 * quarter + i] = static_cast<float>(static_cast<int>(code) - 1) * d;
      }
    }
  }
}

/// Without its scale, which lies behind the tensor.
void decode_one_i2_s(const std::byte* block, float* out) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    for (int i = 0; i < 32; ++i)
      out[32 * quarter + i] = static_cast<float>(static_cast<int>(byte_at(block, i) >> (6 - 2 * quarter) & 3u) - 1);
  }
}

/// Codes for a scale d >= 0: what is nearer to 0 than to d is 0.
void ternary_codes(const float* x, int count, float d, unsigned* codes) {
  const float half = 0.5f * d;
  for (int i = 0; i < count; ++i) codes[i] = d > 0.0f ? 1u + (x[i] > half) - (x[i] < -half) : 1u;
}

/// The best f16 scale of a block. For any scale the codes that are not 0 belong to the largest magnitudes, so the best
/// scale is a weighted mean of the k largest for some k, and trying each k finds it.
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
  return to_half(static_cast<float>(best));
}

void encode_one_tq1_0(const float* x, const float* w, std::byte* block) {
  const float d = best_half_scale<kSuper>(x, w);
  unsigned codes[kSuper];
  ternary_codes(x, kSuper, d, codes);
  for (const Trits& run : kTrits) {
    for (int i = 0; i < run.bytes; ++i) {
      unsigned number = 0;
      for (int digit = 0; digit < 5; ++digit)
        number = 3 * number + (digit < run.digits ? codes[run.element + digit * run.bytes + i] : 0);
      // Rounded up, so that the decoder's truncation gives back each code.
      block[run.at + i] = to_byte((number * 256 + 242) / 243);
    }
  }
  store_half(block + 52, d);
}

void encode_one_tq2_0(const float* x, const float* w, std::byte* block) {
  const float d = best_half_scale<kSuper>(x, w);
  unsigned codes[kSuper];
  ternary_codes(x, kSuper, d, codes);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      for (int quarter = 0; quarter < 4; ++quarter) byte |= codes[128 * half + 32 * quarter + i] << 2 * quarter;
      block[32 * half + i] = to_byte(byte);
    }
  }
  store_half(block + 64, d);
}

/// Takes values divided by the tensor's scale.
void encode_one_i2_s(const float* x, const float*, std::byte* block) {
  unsigned codes[kI2_S];
  ternary_codes(x, kI2_S, 1.0f, codes);
  for (int i = 0; i < 32; ++i) {
    unsigned byte = 0;
    for (int quarter = 0; quarter < 4; ++quarter) byte |= codes[32 * quarter + i] << (6 - 2 * quarter);
    block[i] = to_byte(byte);
  }
}

}  // namespace

float ternary_scale(const float* values, const float* weights, std::int64_t period, std::int64_t count) {
  float largest = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  if (!(largest > 0.0f)) return 0.0f;
  // The k largest magnitudes again, to the resolution of a histogram: a tensor is too large to sort.
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
  // Each round takes the mean of what the scale before does not round to 0, which never raises the error.
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

void decode_tq1_0(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_tq1_0, kSuper, kBytesTQ1_0>(blocks, out, count);
}
void decode_tq2_0(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_tq2_0, kSuper, kBytesTQ2_0>(blocks, out, count);
}
void decode_i2_s(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_i2_s, kI2_S, kBytesI2_S>(blocks, out, count);
}

void encode_tq1_0(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_tq1_0, kSuper, kBytesTQ1_0>(x, w, blocks, count);
}
void encode_tq2_0(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_tq2_0, kSuper, kBytesTQ2_0>(x, w, blocks, count);
}
void encode_i2_s(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_i2_s, kI2_S, kBytesI2_S>(x, w, blocks, count);
}

}  // namespace etna::quant
