#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/families.h>
#include <etna/tensor/quant/internal/super_block_fit.h>

// Four-bit codes that stand for values of a table, closer together near 0, where weights are.
//   IQ4_NL  blocks of 32: f16 d, 16 bytes of codes                     d * table[q]
//   IQ4_XS  256: f16 d, high bits of 8 scales (u16), low bits (4), codes (128)      d * (s - 32) * table[q]
//   MXFP4   blocks of 32: e (a power of two), codes of 1 sign, 2 exponent and 1 mantissa bits (OCP microscaling)
namespace etna::quant {
namespace {

constexpr int kNonLinearFormatsBlock = 32, kBytesIQ4_NL = 18, kBytesIQ4_XS = 136, kBytesMXFP4 = 17;

constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// E2M1 numbers times two.
constexpr int kMicroLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The code of the level next to x. Without branches, so that loops of it vectorize.
int level_code(float x) {
  int code = 0;
  for (int i = 0; i < 15; ++i) code += x > 0.5f * static_cast<float>(kLevels[i] + kLevels[i + 1]) ? 1 : 0;
  return code;
}

struct LevelCodes {
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

void decode_levels(const std::byte* codes, float d, float* out) {
  for (int j = 0; j < 16; ++j) {
    const unsigned byte = byte_at(codes, j);
    out[j] = d * static_cast<float>(kLevels[byte & 0xfu]);
    out[j + 16] = d * static_cast<float>(kLevels[byte >> 4]);
  }
}

void encode_levels(const float* x, float d, std::byte* codes) {
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  for (int j = 0; j < 16; ++j) {
    const int low = level_code(x[j] * inverse), high = level_code(x[j + 16] * inverse);
    codes[j] = to_byte(static_cast<unsigned>(low | high << 4));
  }
}

void decode_one_iq4_nl(const std::byte* block, float* out) { decode_levels(block + 2, load_half(block), out); }

void encode_one_iq4_nl(const float* x, const float* w, std::byte* block) {
  const float d = fit_half_scale<LevelCodes, kNonLinearFormatsBlock>(x, w);
  store_half(block, d);
  encode_levels(x, d, block + 2);
}

void decode_one_iq4_xs(const std::byte* block, float* out) {
  const float d = load_half(block);
  const unsigned high = load<std::uint16_t>(block + 2);
  for (int s = 0; s < 8; ++s) {
    const unsigned six = (byte_at(block + 4, s / 2) >> 4 * (s % 2) & 0xfu) | (high >> 2 * s & 3u) << 4;
    decode_levels(block + 8 + 16 * s, d * static_cast<float>(static_cast<int>(six) - 32),
                  out + kNonLinearFormatsBlock * s);
  }
}

void encode_one_iq4_xs(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<LevelCodes, 8, -32, 31> fit(x, w);
  unsigned high = 0, low = 0;
  for (int s = 0; s < 8; ++s) {
    const unsigned six = static_cast<unsigned>(fit.scales[s] + 32);
    low |= (six & 0xfu) << 4 * s;
    high |= (six >> 4) << 2 * s;
    encode_levels(x + kNonLinearFormatsBlock * s, fit.step(s), block + 8 + 16 * s);
  }
  store_half(block, fit.d);
  store(block + 2, static_cast<std::uint16_t>(high));
  store(block + 4, static_cast<std::uint32_t>(low));
}

/// Half of 2^(e - 127), as the levels are doubled. The two smallest are subnormal.
float half_power(unsigned e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23); }

void decode_one_mxfp4(const std::byte* block, float* out) {
  const float d = half_power(byte_at(block, 0));
  for (int j = 0; j < 16; ++j) {
    const unsigned byte = byte_at(block, 1 + j);
    out[j] = static_cast<float>(kMicroLevels[byte & 0xfu]) * d;
    out[j + 16] = static_cast<float>(kMicroLevels[byte >> 4]) * d;
  }
}

unsigned micro_code(float x) {
  const float magnitude = std::abs(x);
  unsigned code = 0;
  for (int i = 0; i < 7; ++i) code += magnitude > 0.5f * static_cast<float>(kMicroLevels[i] + kMicroLevels[i + 1]);
  return x < 0.0f && code != 0 ? code | 8u : code;
}

void encode_one_mxfp4(const float* x, const float* w, std::byte* block) {
  constexpr int kLastExponent = 252;  // with larger ones, 12 halves of the power are beyond f32
  double largest = 0;
  for (int i = 0; i < kNonLinearFormatsBlock; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  // Whether the largest value is cut or its exponent is raised is decided by the error.
  const int middle = largest > 0 ? static_cast<int>(std::floor(std::log2(largest))) - 2 + 127 : 0;
  unsigned best_e = 0;
  double best = -1;
  for (int e = middle - 1; e <= middle + 1; ++e) {
    const auto bounded = static_cast<unsigned>(std::clamp(e, 0, kLastExponent));
    const double d = half_power(bounded);
    double error = 0;
    for (int i = 0; i < kNonLinearFormatsBlock; ++i) {
      const double off = x[i] - d * kMicroLevels[micro_code(static_cast<float>(x[i] / d))];
      error += w[i] * off * off;
    }
    if (best < 0 || error < best) {
      best = error;
      best_e = bounded;
    }
  }
  const double d = half_power(best_e);
  block[0] = to_byte(best_e);
  const auto code = [&](int i) { return micro_code(static_cast<float>(x[i] / d)); };
  for (int j = 0; j < 16; ++j) block[1 + j] = to_byte(code(j) | code(j + 16) << 4);
}

}  // namespace

void decode_iq4_nl(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_iq4_nl, kNonLinearFormatsBlock, kBytesIQ4_NL>(blocks, out, count);
}
void decode_iq4_xs(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_iq4_xs, 256, kBytesIQ4_XS>(blocks, out, count);
}
void decode_mxfp4(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_mxfp4, kNonLinearFormatsBlock, kBytesMXFP4>(blocks, out, count);
}

void encode_iq4_nl(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_iq4_nl, kNonLinearFormatsBlock, kBytesIQ4_NL>(x, w, blocks, count);
}
void encode_iq4_xs(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_iq4_xs, 256, kBytesIQ4_XS>(x, w, blocks, count);
}
void encode_mxfp4(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_mxfp4, kNonLinearFormatsBlock, kBytesMXFP4>(x, w, blocks, count);
}

}  // namespace etna::quant
