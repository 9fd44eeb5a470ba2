#include <etna/tensor/quant/internal/non_linear_formats.h>

#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/super_block_fit.h>

// Encoders of formats with a table of levels.
namespace etna::quant {
namespace {

constexpr int kNonLinearFormatsBlock = 32;
constexpr auto& kLevels = NonLinear::kLevels;
constexpr auto& kMicroLevels = MXFP4::kLevels;

/// The quant of the level nearest to x. Without branches, so that loops vectorize.
int level_quant(float x) {
  int quant = 0;
  for (int i = 0; i < 15; ++i) quant += x > 0.5f * static_cast<float>(kLevels[i] + kLevels[i + 1]) ? 1 : 0;
  return quant;
}

struct LevelQuants {
  static constexpr int kSteps = 15;
  static constexpr float kWidest = -127;
  static float round(float x) {
    float value = kLevels[0];
    for (int i = 0; i < 15; ++i) {
      const float middle = 0.5f * static_cast<float>(kLevels[i] + kLevels[i + 1]);
      value += x > middle ? static_cast<float>(kLevels[i + 1] - kLevels[i]) : 0.0f;
    }
    return value;
  }
};

void encode_levels(const float* x, float d, std::byte* quants) {
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  for (int j = 0; j < 16; ++j) {
    const int low = level_quant(x[j] * inverse), high = level_quant(x[j + 16] * inverse);
    quants[j] = to_byte(static_cast<unsigned>(low | high << 4));
  }
}

/// 2^(e - 127) divided by two, because the levels are doubled. The two smallest are subnormal.
float half_power(unsigned e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

}  // namespace

unsigned nearest_e2m1(float x) {
  const float magnitude = std::abs(x);
  unsigned quant = 0;
  for (int i = 0; i < 7; ++i) quant += magnitude > 0.5f * static_cast<float>(kMicroLevels[i] + kMicroLevels[i + 1]);
  return x < 0.0f && quant != 0 ? quant | 8u : quant;
}

void IQ4_NL::encode(const float* x, const float* w, std::byte* block) {
  const float d = fit_f16_scale<LevelQuants, kNonLinearFormatsBlock>(x, w);
  store_f16(block, d);
  encode_levels(x, d, block + 2);
}

void IQ4_XS::encode(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<LevelQuants, 8, -32, 31> fit(x, w);
  unsigned high = 0, low = 0;
  for (int s = 0; s < 8; ++s) {
    const unsigned six = static_cast<unsigned>(fit.scales[s] + 32);
    low |= (six & 0xfu) << 4 * s;
    high |= (six >> 4) << 2 * s;
    encode_levels(x + kNonLinearFormatsBlock * s, fit.step(s), block + 8 + 16 * s);
  }
  store_f16(block, fit.d);
  store(block + 2, static_cast<std::uint16_t>(high));
  store(block + 4, static_cast<std::uint32_t>(low));
}

void MXFP4::encode(const float* x, const float* w, std::byte* block) {
  constexpr int kLastExponent = 252;  // with larger ones, 12 halves of the power are beyond f32
  double largest = 0;
  for (int i = 0; i < kNonLinearFormatsBlock; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  // The error decides whether to clip the largest value or to raise the exponent.
  const int middle = largest > 0 ? static_cast<int>(std::floor(std::log2(largest))) - 2 + 127 : 0;
  unsigned best_e = 0;
  double best = -1;
  for (int e = middle - 1; e <= middle + 1; ++e) {
    const auto bounded = static_cast<unsigned>(std::clamp(e, 0, kLastExponent));
    const double d = half_power(bounded);
    double error = 0;
    for (int i = 0; i < kNonLinearFormatsBlock; ++i) {
      const double off = x[i] - d * kMicroLevels[nearest_e2m1(static_cast<float>(x[i] / d))];
      error += w[i] * off * off;
    }
    if (best < 0 || error < best) {
      best = error;
      best_e = bounded;
    }
  }
  const double d = half_power(best_e);
  block[0] = to_byte(best_e);
  const auto quant = [&](int i) { return nearest_e2m1(static_cast<float>(x[i] / d)); };
  for (int j = 0; j < 16; ++j) block[1 + j] = to_byte(quant(j) | quant(j + 16) << 4);
}

}  // namespace etna::quant
