#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/quant/internal/block_bytes.h>

// A second decoder of each format, element by element, after the pictures of blocks in docs/quantization.md.
namespace {

using namespace etna::quant;

class Block {
 public:
  explicit Block(const std::byte* bytes) : bytes_(bytes) {}
  unsigned u8(int at) const { return byte_at(bytes_, at); }
  int i8(int at) const { return static_cast<std::int8_t>(u8(at)); }
  float f16(int at) const { return load_f16(bytes_ + at); }
  /// `count` bits of a byte, from bit `low` on.
  int bits(int at, int low, int count) const { return static_cast<int>(u8(at) >> low & ((1u << count) - 1)); }
  /// The four bits of element i of 32 in 16 bytes: byte j has those of element j low and those of j + 16 high.
  int nibble(int at, int i) const { return bits(at + i % 16, i / 16 * 4, 4); }

 private:
  const std::byte* bytes_;
};

constexpr int kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr float kE2M1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/// The scale and the minimum of sub-block s in 12 bytes.
std::pair<int, int> six_bits(const Block& b, int at, int s) {
  if (s < 4) return {b.bits(at + s, 0, 6), b.bits(at + 4 + s, 0, 6)};
  return {b.bits(at + 4 + s, 0, 4) + 16 * b.bits(at + s - 4, 6, 2),
          b.bits(at + 4 + s, 4, 4) + 16 * b.bits(at + s, 6, 2)};
}

float k_value(float d, std::pair<int, int> s, int q, float dmin) {
  return d * static_cast<float>(s.first) * static_cast<float>(q) - dmin * static_cast<float>(s.second);
}

float tq1_0(const Block& b, int i) {
  const int run = i < 160 ? 0 : i < 240 ? 1 : 2, first[] = {0, 160, 240}, at[] = {0, 32, 48}, bytes[] = {32, 16, 4};
  const int place = i - first[run];
  unsigned fraction = b.u8(at[run] + place % bytes[run]);
  for (int digit = place / bytes[run]; digit > 0; --digit) fraction = fraction * 3 % 256;
  return static_cast<float>(static_cast<int>(fraction * 3 / 256) - 1) * b.f16(52);
}

using Element = std::function<float(const Block&, int)>;

Element integers(int bits, bool zero) {
  return [bits, zero](const Block& b, int i) {
    const int at = zero ? 4 : 2;
    const int q = bits == 8 ? b.i8(at + i) : b.nibble(at + i / 32 * 16, i % 32);
    const float z = zero ? b.f16(2) : bits == 8 ? 0.0f : 8.0f;
    return (static_cast<float>(q) - z) * b.f16(0);
  };
}

const std::map<std::string_view, Element>& elements() {
  const auto f = [](int value) { return static_cast<float>(value); };
  static const std::map<std::string_view, Element> all = {
      {"Q8_0", [=](const Block& b, int i) { return f(b.i8(2 + i)) * b.f16(0); }},
      {"Q4_0", [=](const Block& b, int i) { return f(b.nibble(2, i) - 8) * b.f16(0); }},
      {"Q4_1", [=](const Block& b, int i) { return f(b.nibble(4, i)) * b.f16(0) + b.f16(2); }},
      {"Q5_0",
       [=](const Block& b, int i) { return f(b.nibble(6, i) + 16 * b.bits(2 + i / 8, i % 8, 1) - 16) * b.f16(0); }},
      {"Q5_1", [=](const Block& b,
                   int i) { return f(b.nibble(8, i) + 16 * b.bits(4 + i / 8, i % 8, 1)) * b.f16(0) + b.f16(2); }},
      {"IQ4_NL", [=](const Block& b, int i) { return f(kTable[b.nibble(2, i)]) * b.f16(0); }},
      {"MXFP4",
       [](const Block& b, int i) {
         const int q = b.nibble(1, i);
         return std::ldexp(q < 8 ? kE2M1[q] : -kE2M1[q - 8], static_cast<int>(b.u8(0)) - 127);
       }},
      {"NVFP4",
       [](const Block& b, int i) {
         const unsigned s = b.u8(i / 16) & 127;
         const int q = b.bits(4 + i / 16 * 8 + i % 8, i % 16 / 8 * 4, 4);
         const float scale = s == 127 ? 0.0f
                             : s < 8  ? std::ldexp(static_cast<float>(s), -9)
                                      : std::ldexp(1 + static_cast<float>(s % 8) / 8, static_cast<int>(s / 8) - 7);
         return (b.u8(i / 16) == 255 ? 480.0f : scale) * (q < 8 ? kE2M1[q] : -kE2M1[q - 8]);
       }},
      {"Q2_K",
       [](const Block& b, int i) {
         const int q = b.bits(16 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2);
         return k_value(b.f16(80), {b.bits(i / 16, 0, 4), b.bits(i / 16, 4, 4)}, q, b.f16(82));
       }},
      {"Q3_K",
       [=](const Block& b, int i) {
         const int q = b.bits(32 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) + 4 * b.bits(i % 32, i / 32, 1),
                   s = i / 16;
         const int scale = b.bits(96 + s % 8, s / 8 * 4, 4) + 16 * b.bits(104 + s % 4, s / 4 * 2, 2);
         return b.f16(108) * f(scale - 32) * f(q - 4);
       }},
      {"Q4_K",
       [](const Block& b, int i) {
         const int q = b.bits(16 + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4);
         return k_value(b.f16(0), six_bits(b, 4, i / 32), q, b.f16(2));
       }},
      {"Q5_K",
       [](const Block& b, int i) {
         const int q = b.bits(48 + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4) + 16 * b.bits(16 + i % 32, i / 32, 1);
         return k_value(b.f16(0), six_bits(b, 4, i / 32), q, b.f16(2));
       }},
      {"Q6_K",
       [=](const Block& b, int i) {
         const int q = b.bits(i / 128 * 64 + i % 64, i % 128 / 64 * 4, 4) +
                       16 * b.bits(128 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2);
         return b.f16(208) * f(b.i8(192 + i / 16)) * f(q - 32);
       }},
      {"IQ4_XS",
       [=](const Block& b, int i) {
         const int s = i / 32, scale = b.bits(4 + s / 2, s % 2 * 4, 4) + 16 * b.bits(2 + s / 4, s % 4 * 2, 2);
         return b.f16(0) * f(scale - 32) * f(kTable[b.nibble(8 + 16 * s, i % 32)]);
       }},
      {"TQ1_0", tq1_0},
      {"TQ2_0",
       [=](const Block& b, int i) { return f(b.bits(i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) - 1) * b.f16(64); }},
      {"I2_S", [=](const Block& b, int i) { return f(b.bits(i % 32, 6 - i / 32 * 2, 2) - 1); }},
      {"INT8_64", integers(8, false)},
      {"INT8_128", integers(8, false)},
      {"INT8_ZP_32", integers(8, true)},
      {"INT8_ZP_64", integers(8, true)},
      {"INT8_ZP_128", integers(8, true)},
      {"INT4_64", integers(4, false)},
      {"INT4_128", integers(4, false)},
      {"INT4_ZP_32", integers(4, true)},
      {"INT4_ZP_64", integers(4, true)},
      {"INT4_ZP_128", integers(4, true)},
  };
  return all;
}

TEST(BlockLayout, IsThatOfThePicturesInTheDocs) {
  std::mt19937 random(3);
  std::size_t compared = 0;
  for (const BlockFormat& format : block_formats()) {
    // Those that are unquantized; and points of grids, which have no picture: ggml's values of them are compared.
    if (format.elements == 1 || !format.can_quantize()) continue;
    ASSERT_TRUE(elements().count(format.name)) << format.name << " has no picture";
    const Element& element = elements().at(format.name);
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<std::byte> bytes(storage_bytes(format, format.elements));
      for (std::byte& byte : bytes) byte = to_byte(static_cast<unsigned>(random()));
      if (format.tail > 0) store(bytes.data() + format.bytes, 1.0f);
      std::vector<float> decoded(static_cast<std::size_t>(format.elements));
      dequantize(format, bytes, decoded.data(), format.elements);
      float largest = 0;
      for (const float value : decoded) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0.0f);
      for (int i = 0; i < format.elements; ++i) {
        const float wanted = element(Block(bytes.data()), i), got = decoded[static_cast<std::size_t>(i)];
        if (!std::isfinite(wanted)) continue;  // random bytes may be an f16 NaN or infinity
        ASSERT_NEAR(got, wanted, 1e-5 * largest) << format.name << " element " << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 150000u);
}

}  // namespace
