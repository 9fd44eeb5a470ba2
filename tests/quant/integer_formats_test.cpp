#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/tensor/dtype.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/quant/quantized_tensor.h>
#include <quant/test_values.h>

namespace etna::quant {
namespace {

constexpr const char* kAll[] = {"INT8_64", "INT8_128", "INT8_ZP_32", "INT8_ZP_64", "INT8_ZP_128",
                                "INT4_64", "INT4_128", "INT4_ZP_32", "INT4_ZP_64", "INT4_ZP_128"};

float half_at(const std::vector<std::byte>& bytes, std::size_t at) {
  Half half;
  std::memcpy(&half.bits, bytes.data() + at, sizeof half.bits);
  return static_cast<float>(half);
}

/// Test values around 0.1, so that zero points matter.
std::vector<float> off_zero() {
  std::vector<float> values = test_values();
  for (float& value : values) value += 0.1f;
  return values;
}

TEST(IntegerFormats, LieAsTheyAreDescribed) {
  // 8 bits: the largest magnitude has quant 127.
  std::vector<float> values(64, 0.0f);
  values[3] = -1.27f;
  values[40] = 0.5f;
  std::vector<std::byte> bytes(66);
  quantize(format_named("INT8_64"), values.data(), bytes, 64);
  EXPECT_NEAR(half_at(bytes, 0), 0.01f, 1e-5f);
  EXPECT_EQ(static_cast<int>(static_cast<std::int8_t>(bytes[2 + 3])), -127);
  EXPECT_EQ(static_cast<int>(static_cast<std::int8_t>(bytes[2 + 40])), 50);
  // 4 bits with a zero point: elements 0 ... 15 of 32 are in low nibbles, 16 ... 31 in high ones.
  values.assign(64, 0.0f);
  values[0] = -0.25f;
  values[33] = 0.75f;
  values[16 + 32] = 1.0f;
  bytes.assign(36, std::byte{0});
  quantize(format_named("INT4_ZP_64"), values.data(), bytes, 64);
  const float d = half_at(bytes, 0), z = half_at(bytes, 2);
  EXPECT_EQ(z, 3);
  const auto value = [&](std::byte half) { return (static_cast<float>(std::to_integer<int>(half)) - z) * d; };
  EXPECT_NEAR(value(bytes[4] & std::byte{15}), -0.25f, d / 2);
  EXPECT_NEAR(value(bytes[4 + 16 + 1] & std::byte{15}), 0.75f, d / 2);
  EXPECT_NEAR(value(bytes[4 + 16] >> 4), 1.0f, d / 2);
  EXPECT_EQ(value(bytes[4 + 16] & std::byte{15}), 0.0f);
}

TEST(IntegerFormats, LoseAtMostHalfAStepInsideTheirRange) {
  for (const char* name : kAll) {
    const BlockFormat& format = format_named(name);
    const std::vector<float> values = off_zero();
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<std::byte> bytes(storage_bytes(format, count));
    std::vector<float> decoded(values.size());
    quantize(format, values.data(), bytes, count);
    dequantize(format, bytes, decoded.data(), count);
    const auto block = static_cast<std::size_t>(format.elements);
    std::size_t clipped = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float d = std::abs(half_at(bytes, i / block * format.bytes));
      clipped += std::abs(decoded[i] - values[i]) > 0.5001f * d ? 1 : 0;
    }
    EXPECT_LT(clipped, values.size() / 20) << name;
  }
}

TEST(IntegerFormats, AreMoreExactInSmallerGroupsAndWithZeroPoints) {
  const std::vector<float> values = off_zero();
  const auto decibels = [&](const char* name) {
    return quantization_error(format_named(name), values).signal_to_noise();
  };
  for (const char* bits : {"INT8_", "INT4_"}) {
    const auto named = [&](const char* rest) { return decibels((std::string(bits) + rest).c_str()); };
    EXPECT_GT(named("64"), named("128")) << bits;
    EXPECT_GT(named("ZP_32"), named("ZP_64")) << bits;
    EXPECT_GT(named("ZP_64"), named("ZP_128")) << bits;
    EXPECT_GT(named("ZP_64"), named("64")) << bits;
    EXPECT_GT(named("ZP_128"), named("128")) << bits;
  }
  EXPECT_GT(decibels("INT8_128"), 38);
  EXPECT_GT(decibels("INT4_128"), 16);
}

TEST(IntegerFormats, HaveOneScalePerChannelWhereAskedTo) {
  const std::vector<float> values = off_zero();
  for (const char* name : kAll) {
    const BlockFormat& format = format_named(name);
    std::vector<std::byte> bytes(storage_bytes(format, static_cast<std::int64_t>(values.size())));
    quantize_rows(format, values.data(), bytes, kRows, kColumns);
    const std::size_t blocks = kColumns / static_cast<std::size_t>(format.elements);
    std::set<float> scales;
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t b = 1; b < blocks; ++b) {
        const std::size_t first = r * blocks * format.bytes, at = first + b * format.bytes;
        ASSERT_EQ(half_at(bytes, at), half_at(bytes, first)) << name;
        if (std::string_view(name).find("ZP") != std::string_view::npos) {
          ASSERT_EQ(half_at(bytes, at + 2), half_at(bytes, first + 2)) << name;
        }
      }
      scales.insert(half_at(bytes, r * blocks * format.bytes));
    }
    EXPECT_GT(scales.size(), kRows / 2) << name << ": rows differ";
    // Not better than groups, but close if the values of a row have the same magnitude everywhere.
    const double groups = quantization_error(format, values).signal_to_noise();
    const double rows = quantization_error_of_rows(format, values, kColumns).signal_to_noise();
    EXPECT_LT(rows, groups) << name;
    EXPECT_GT(rows, groups - 6) << name;
    // Importance lowers the weighted error.
    std::vector<float> factors(kColumns, 1.0f);
    for (std::size_t c = 0; c < kColumns; c += 8) factors[c] = 1000.0f;
    const auto weighted = [&](std::span<const float> importance) {
      std::vector<float> decoded(values.size());
      quantize_rows(format, values.data(), bytes, kRows, kColumns, importance);
      dequantize(format, bytes, decoded.data(), static_cast<std::int64_t>(values.size()));
      double sum = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        sum += factors[i % kColumns] * std::pow(static_cast<double>(decoded[i]) - values[i], 2);
      return sum;
    };
    EXPECT_LT(weighted(factors), weighted({})) << name;
  }
}

TEST(IntegerFormats, RefuseChannelsOfOtherFormatsAndShapes) {
  std::vector<float> values(512, 0.5f);
  std::vector<std::byte> bytes(1024);
  EXPECT_THROW(quantize_rows(format_named("Q4_K"), values.data(), bytes, 2, 256), FormatError);
  EXPECT_THROW(quantize_rows(format_named("INT8_128"), values.data(), bytes, 2, 192), ShapeError);
  EXPECT_THROW(quantize_rows(format_named("INT8_128"), values.data(), std::span(bytes).first(100), 2, 256), ShapeError);
  EXPECT_THROW(quantize_rows(format_named("INT8_128"), values.data(), bytes, 2, 256, std::vector<float>(512, 1.0f)),
               ShapeError);
  values[300] = std::nanf("");
  EXPECT_THROW(quantize_rows(format_named("INT8_128"), values.data(), bytes, 2, 256), FormatError);
  EXPECT_THROW(etna::quantize_per_channel(ones({4, 256}), format_named("Q8_0")), FormatError);
  EXPECT_THROW(quantization_error_of_rows(format_named("INT8_128"), values, 200), ShapeError);
}

}  // namespace
}  // namespace etna::quant
