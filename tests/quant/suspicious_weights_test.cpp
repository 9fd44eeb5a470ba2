#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/tensor/quant/block_format.h>
#include <quant/test_values.h>

namespace etna::quant {
namespace {

std::vector<std::byte> quantized(const BlockFormat& format, const std::vector<float>& values) {
  std::vector<std::byte> bytes(storage_bytes(format, static_cast<std::int64_t>(values.size())));
  quantize(format, values.data(), bytes, static_cast<std::int64_t>(values.size()));
  return bytes;
}

std::string words(const BlockFormat& format, const std::vector<std::byte>& bytes, std::int64_t count) {
  std::string all;
  for (const Finding& finding : find_suspicious(format, bytes, count)) all += finding.text + "; ";
  return all;
}

TEST(SuspiciousWeights, AreNotFoundInSoundTensors) {
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize()) continue;
    EXPECT_EQ(words(format, quantized(format, test_values()), kRows * kColumns), "") << format.name;
    EXPECT_EQ(words(format, {}, 0), "") << format.name;
  }
}

TEST(SuspiciousWeights, AreNaNInfiniteOrLarge) {
  std::vector<float> values(100, 0.5f);
  values[17] = std::nanf("");
  values[40] = -std::numeric_limits<float>::infinity();
  values[50] = -1e5f;
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(words(format_named("F32"), {bytes.begin(), bytes.end()}, 100),
            "2 values are NaN or infinite, the first at element 17; 1 value is larger than 10000, at element 50; ");
}

TEST(SuspiciousWeights, HaveLostScales) {
  // Overwrites the f16 numbers of a block with infinity.
  const struct {
    const char* name;
    std::size_t at;
  } cases[] = {{"Q8_0", 0}, {"Q4_1", 2}, {"Q2_K", 82}, {"Q3_K", 108}, {"Q4_K", 2}, {"Q6_K", 208}, {"TQ1_0", 52}};
  for (const auto& c : cases) {
    const BlockFormat& format = format_named(c.name);
    std::vector<std::byte> bytes = quantized(format, test_values());
    bytes[format.bytes + c.at] = std::byte{0x00};
    bytes[format.bytes + c.at + 1] = std::byte{0x7c};
    const std::vector<Finding> found = find_suspicious(format, bytes, kRows * kColumns);
    ASSERT_EQ(found.size(), 1u) << c.name;
    EXPECT_EQ(found[0].kind, Finding::Kind::scale) << c.name;
    EXPECT_EQ(found[0].first, format.elements) << c.name;
    EXPECT_EQ(found[0].count, format.elements) << c.name;
  }
  const BlockFormat& micro = format_named("MXFP4");
  std::vector<std::byte> bytes = quantized(micro, test_values());
  bytes[0] = std::byte{255};
  EXPECT_EQ(words(micro, bytes, kRows * kColumns),
            "32 elements of MXFP4 have a scale that is NaN or infinite, the first at element 0; ");
}

TEST(SuspiciousWeights, HaveOneScaleForATensorInI2S) {
  const BlockFormat& format = format_named("I2_S");
  std::vector<std::byte> bytes = quantized(format, test_values());
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + bytes.size() - 32, &nan, sizeof nan);
  EXPECT_EQ(words(format, bytes, kRows * kColumns),
            "8192 elements of I2_S have a scale that is NaN or infinite, the first at element 0; ");
}

TEST(SuspiciousWeights, AreCodesThatTernaryLacks) {
  const BlockFormat& format = format_named("TQ2_0");
  std::vector<std::byte> bytes = quantized(format, test_values());
  bytes[format.bytes] |= std::byte{0b11'00'00'11};
  EXPECT_EQ(words(format, bytes, kRows * kColumns),
            "2 quants are not one of the three of TQ2_0, the first at element 256; ");
}

TEST(SuspiciousWeights, AreAllZero) {
  for (const char* name : {"F16", "Q4_K", "I2_S", "IQ4_NL"}) {
    const BlockFormat& format = format_named(name);
    EXPECT_EQ(words(format, quantized(format, std::vector<float>(256)), 256), "all 256 values are 0; ") << name;
  }
}

TEST(ErrorStatistics, MeasureDifferences) {
  const std::vector<float> exact{1, 2, 3, 4}, other{1, 2.5f, 3, 4};
  const ErrorStatistics statistics = compare(exact, other);
  EXPECT_DOUBLE_EQ(statistics.mean_square_error, 0.0625);
  EXPECT_DOUBLE_EQ(statistics.largest_error, 0.5);
  EXPECT_EQ(statistics.largest_error_at, 1);
  EXPECT_NEAR(statistics.signal_to_noise(), 10 * std::log10(7.5 / 0.0625), 1e-9);
  EXPECT_EQ(statistics.str(), "mean square error 0.0625, largest 0.5 at 1, 20.8 dB");
  EXPECT_TRUE(std::isinf(compare(exact, exact).signal_to_noise()));
  EXPECT_THROW(compare(exact, std::span(other).first(3)), ShapeError);
  EXPECT_EQ(compare({}, {}).count, 0);
}

TEST(ErrorStatistics, ShowNaN) {
  const std::vector<float> exact{1, std::nanf("")}, other{std::nanf(""), std::nanf("")};
  EXPECT_TRUE(std::isinf(compare(exact, other).largest_error));
  EXPECT_EQ(compare(exact, other).largest_error_at, 0);
}

TEST(ErrorStatistics, AddUpOverParts) {
  const std::vector<float> values = test_values();
  const BlockFormat& format = format_named("Q4_0");
  const ErrorStatistics whole = quantization_error(format, values);
  ErrorStatistics sum = quantization_error(format, std::span(values).first(2048));
  sum.add(quantization_error(format, std::span(values).subspan(2048)));
  EXPECT_EQ(sum.count, whole.count);
  EXPECT_NEAR(sum.mean_square_error, whole.mean_square_error, 1e-12);
  EXPECT_NEAR(sum.mean_square, whole.mean_square, 1e-12);
  EXPECT_EQ(sum.largest_error, whole.largest_error);
  EXPECT_EQ(sum.largest_error_at, whole.largest_error_at);
  EXPECT_GT(whole.signal_to_noise(), 18);
}

}  // namespace
}  // namespace etna::quant
