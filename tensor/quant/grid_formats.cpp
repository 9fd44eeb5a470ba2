#include <etna/tensor/quant/internal/grid_formats.h>

#include <bit>

#include <etna/tensor/quant/internal/grid_tables.h>
#include <etna/tensor/quant/internal/vector_portable.h>

namespace etna::quant {
namespace {

constexpr int kElements = 256, kRunsOf32 = 8;
/// Levels of a coordinate.
constexpr float kLevels2[4] = {8, 25, 43, 0};
constexpr float kLevels3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr float kLevels3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr float kLevels1[4] = {-1, 0, 1, 0};

unsigned byte_of(const std::byte* at) { return std::to_integer<unsigned>(*at); }

/// Eight signs of seven: the last one makes the number of minus signs even.
unsigned eight_signs(unsigned seven) { return seven | static_cast<unsigned>(std::popcount(seven) % 2) << 7; }

/// Count coordinates of Bits bits. @param signs a bit for each, 1: minus
template <int Count, int Bits>
void write_point(unsigned point, const float* levels, float scale, unsigned signs, float* out) {
  for (int i = 0; i < Count; ++i) {
    const float value = scale * levels[point >> Bits * i & ((1u << Bits) - 1)];
    out[i] = signs >> i & 1u ? -value : value;
  }
}

/// Decodes each block by decode(block, out).
template <int Bytes, typename Decode>
void each_block(const std::byte* blocks, float* out, std::int64_t count, const Decode& decode) {
  for (std::int64_t i = 0; i < count; ++i) decode(blocks + i * Bytes, out + i * kElements);
}

/// The scale of 16 or 32 elements in IQ2.
float scale2(float d, unsigned s) { return d * (0.5f + static_cast<float>(s)) * 0.25f; }

/// Eight elements of IQ1.
void write_point1(unsigned index, float scale, bool minus, float* out) {
  const unsigned point = kGrid2048[index];
  const float delta = minus ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i) out[i] = scale * (kLevels1[point >> 2 * i & 3u] + delta);
}

}  // namespace

void decode_iq2_xxs(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<66>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int run = 0; run < kRunsOf32; ++run) {
      const std::byte* indices = b + 2 + 8 * run;
      const auto rest = bits_at<std::uint32_t>(indices + 4);
      const float scale = scale2(d, rest >> 28);
      for (int l = 0; l < 4; ++l, y += 8)
        write_point<8, 2>(kGrid256[byte_of(indices + l)], kLevels2, scale, eight_signs(rest >> 7 * l & 127u), y);
    }
  });
}

void decode_iq2_xs(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<74>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const unsigned bits = bits_at<std::uint16_t>(b + 2 + 2 * i), s = byte_of(b + 66 + i / 4) >> i / 2 % 2 * 4 & 15u;
      write_point<8, 2>(kGrid512[bits & 511u], kLevels2, scale2(d, s), eight_signs(bits >> 9), y);
    }
  });
}

void decode_iq2_s(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<82>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const unsigned high = byte_of(b + 66 + i / 4) >> i % 4 * 2 & 3u,
                     s = byte_of(b + 74 + i / 4) >> i / 2 % 2 * 4 & 15u;
      write_point<8, 2>(kGrid1024[byte_of(b + 2 + i) | high << 8], kLevels2, scale2(d, s), byte_of(b + 34 + i), y);
    }
  });
}

void decode_iq3_xxs(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<98>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const auto rest = bits_at<std::uint32_t>(b + 66 + i / 4 * 4);
      const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
      const unsigned signs = eight_signs(rest >> 7 * (i % 4) & 127u);
      write_point<4, 3>(kQuads256[byte_of(b + 2 + 2 * i)], kLevels3Xxs, scale, signs, y);
      write_point<4, 3>(kQuads256[byte_of(b + 3 + 2 * i)], kLevels3Xxs, scale, signs >> 4, y + 4);
    }
  });
}

void decode_iq3_s(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<110>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const unsigned ninth = byte_of(b + 66 + i / 4) >> i % 4 * 2, signs = byte_of(b + 74 + i);
      const unsigned s = byte_of(b + 106 + i / 8) >> i / 4 % 2 * 4 & 15u;
      const float scale = d * static_cast<float>(1 + 2 * s);
      write_point<4, 3>(kQuads512[byte_of(b + 2 + 2 * i) | (ninth & 1u) << 8], kLevels3S, scale, signs, y);
      write_point<4, 3>(kQuads512[byte_of(b + 3 + 2 * i) | (ninth >> 1 & 1u) << 8], kLevels3S, scale, signs >> 4,
                        y + 4);
    }
  });
}

void decode_iq1_s(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<50>(blocks, out, count, [](const std::byte* b, float* y) {
    const float d = f16_at(b);
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const unsigned rest = bits_at<std::uint16_t>(b + 34 + i / 4 * 2);
      const float scale = d * static_cast<float>(2 * (rest >> 12 & 7u) + 1);
      write_point1(byte_of(b + 2 + i) | (rest >> 3 * (i % 4) & 7u) << 8, scale, (rest & 0x8000u) != 0, y);
    }
  });
}

void decode_iq1_m(const std::byte* blocks, float* out, std::int64_t count) {
  each_block<56>(blocks, out, count, [](const std::byte* b, float* y) {
    const auto scales = bits_at<std::uint64_t>(b + 48);
    // The top four bits of each u16 are a part of d, the lowest first.
    unsigned half = 0;
    for (int i = 0; i < 4; ++i) half |= static_cast<unsigned>(scales >> (16 * i + 12) & 15u) << 4 * i;
    const float d = f16_to_float(static_cast<std::uint16_t>(half));
    for (int i = 0; i < 4 * kRunsOf32; ++i, y += 8) {
      const unsigned rest = byte_of(b + 32 + i / 2) >> i % 2 * 4 & 15u;
      const auto s = static_cast<unsigned>(scales >> (i / 8 * 16 + i / 2 % 4 * 3) & 7u);
      write_point1(byte_of(b + i) | (rest & 7u) << 8, d * static_cast<float>(2 * s + 1), (rest & 8u) != 0, y);
    }
  });
}

}  // namespace etna::quant
