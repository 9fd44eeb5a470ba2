#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/tensor/dtype.h>
#include <etna/tensor/quant/block_format.h>
#include <quant/ggml_fixtures.h>
#include <quant/test_values.h>

namespace etna::quant {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(BlockFormats, DecodeBitForBitAsGgml) {
  int checked = 0;
  for (const GgmlFixture& fixture : kGgmlFixtures) {
    const BlockFormat& format = format_named(fixture.format);
    const std::vector<std::byte> block = from_hex(fixture.block), bits = from_hex(fixture.values);
    ASSERT_EQ(block.size(), format.bytes) << format.name;
    std::vector<float> decoded(bits.size() / 4);
    dequantize(format, block, decoded.data(), format.elements);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(bits[4 * i + at]); };
      const std::uint32_t wanted = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]), wanted) << format.name << " element " << i;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 23);
}

TEST(BlockFormats, HaveDistinctNamesAndNumbers) {
  std::set<std::string_view> names;
  std::set<std::uint32_t> numbers;
  for (const BlockFormat& format : block_formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    if (format.gguf_type != kNoGgufType) {
      EXPECT_TRUE(numbers.insert(format.gguf_type).second) << format.name;
    }
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_EQ(find_format(format.gguf_type), format.gguf_type == kNoGgufType ? nullptr : &format);
    EXPECT_FALSE(format.holds.empty());
  }
  EXPECT_EQ(&format_named("q4_k"), find_format(12u));
  EXPECT_DOUBLE_EQ(format_named("Q4_K").bits(), 4.5);
  EXPECT_EQ(find_format("Q4_"), nullptr);
  EXPECT_EQ(find_format(""), nullptr);
  EXPECT_THAT(refusal([] { format_named("Q9"); }), HasSubstr("unknown block format 'Q9'; known are F32, F16"));
}

TEST(BlockFormats, RefuseLengthsThatAreNoWholeBlocks) {
  const BlockFormat& format = format_named("Q4_K");
  EXPECT_EQ(storage_bytes(format, 512), 288u);
  EXPECT_EQ(storage_bytes(format, 0), 0u);
  EXPECT_THAT(refusal([&] { storage_bytes(format, 100); }),
              HasSubstr("Q4_K: 100 elements are not whole blocks of 256"));
  EXPECT_THROW(storage_bytes(format, -256), ShapeError);
  EXPECT_THROW(storage_bytes(format_named("F64"), std::int64_t{1} << 61), ShapeError);
  std::vector<float> values(256);
  std::vector<std::byte> bytes(143);
  EXPECT_THAT(refusal([&] { dequantize(format, bytes, values.data(), 256); }),
              HasSubstr("256 elements of Q4_K take 144 bytes; got 143"));
  EXPECT_THAT(refusal([&] { quantize(format, values.data(), bytes, 256); }), HasSubstr("there is room for 143"));
}

TEST(BlockFormats, AcceptNoElements) {
  for (const BlockFormat& format : block_formats()) {
    dequantize(format, {}, nullptr, 0);
    if (format.can_quantize()) quantize(format, nullptr, {}, 0);
    EXPECT_EQ(storage_bytes(format, 0), 0u);
  }
}

TEST(Quantize, RefusesWhatAFormatCannotHoldAndWritesNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize()) continue;
    std::vector<float> values(256, 0.5f);
    std::vector<std::byte> bytes(storage_bytes(format, 256), std::byte{42});
    for (const float bad : {std::nanf(""), infinity, -infinity}) {
      values[77] = bad;
      const std::string text = refusal([&] { quantize(format, values.data(), bytes, 256); });
      EXPECT_THAT(text, HasSubstr("quantize: element 77 is ")) << format.name;
      EXPECT_THAT(text, HasSubstr(std::string(format.name))) << format.name;
    }
    EXPECT_THAT(bytes, testing::Each(std::byte{42}));
  }
  std::vector<float> large(32, 1e6f);
  std::vector<std::byte> bytes(64);
  EXPECT_THAT(refusal([&] { quantize(format_named("F16"), large.data(), bytes, 32); }),
              HasSubstr("element 0 is 1000000, beyond 65504, which F16 cannot hold (32 of 32 elements are invalid)"));
  EXPECT_THAT(refusal([&] { quantize(format_named("I32"), large.data(), bytes, 16); }), HasSubstr("is read-only"));
}

TEST(Quantize, RefusesImportanceThatDoesNotFit) {
  const BlockFormat& format = format_named("Q4_0");
  std::vector<float> values(64, 0.5f), factors(48, 1.0f);
  std::vector<std::byte> bytes(storage_bytes(format, 64));
  EXPECT_THAT(refusal([&] { quantize(format, values.data(), bytes, 64, factors); }),
              HasSubstr("48 factors, which does not divide 64 elements"));
  factors.assign(32, 1.0f);
  factors[5] = -1;
  EXPECT_THAT(refusal([&] { quantize(format, values.data(), bytes, 64, factors); }),
              HasSubstr("importance of column 5 is -1"));
  factors[5] = std::nanf("");
  EXPECT_THROW(quantize(format, values.data(), bytes, 64, factors), FormatError);
}

/// The weighted squared error of a format on test_values().
double error_of(const BlockFormat& format, std::span<const float> importance) {
  const std::vector<float> values = test_values();
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> bytes(storage_bytes(format, count));
  std::vector<float> decoded(values.size());
  quantize(format, values.data(), bytes, count, importance);
  dequantize(format, bytes, decoded.data(), count);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = static_cast<double>(decoded[i]) - values[i];
    sum += (importance.empty() ? 1.0 : importance[i % importance.size()]) * off * off;
  }
  return sum;
}

TEST(Quantize, HasNoLargerErrorThanGgml) {
  for (const GgmlError& ggml : kGgmlErrors) {
    EXPECT_LE(error_of(format_named(ggml.format), {}), ggml.plain) << ggml.format;
    EXPECT_LE(error_of(format_named(ggml.format), test_importance()), ggml.weighted) << ggml.format;
  }
}

TEST(Quantize, KeepsWhatAFormatHoldsExactly) {
  for (const char* name : {"TQ1_0", "TQ2_0", "I2_S", "Q4_0", "Q8_0", "MXFP4", "NVFP4", "F16", "BF16", "F32"}) {
    const BlockFormat& format = format_named(name);
    std::vector<float> values(512), decoded(512);
    const float scale = std::string_view(name) == "Q8_0" ? 127 * 0x1p-9f : 0x1p-5f;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i * 7 % 11 % 3) - 1) * scale;
    std::vector<std::byte> bytes(storage_bytes(format, 512));
    quantize(format, values.data(), bytes, 512);
    dequantize(format, bytes, decoded.data(), 512);
    EXPECT_EQ(decoded, values) << name;
  }
}

TEST(Quantize, DecodesToFiniteValuesAtEveryMagnitude) {
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize()) continue;
    for (const float magnitude : {0.0f, 1e-45f, 1e-38f, 1e-30f, 1e-20f, 6e-8f, 1e-5f, 1.0f, 6e4f, format.largest}) {
      std::vector<float> values(256), decoded(256);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::clamp(magnitude * (static_cast<float>(i % 17) - 8) / 8, -format.largest, format.largest);
      std::vector<std::byte> bytes(storage_bytes(format, 256));
      quantize(format, values.data(), bytes, 256);
      dequantize(format, bytes, decoded.data(), 256);
      for (const float value : decoded) {
        ASSERT_TRUE(std::isfinite(value)) << format.name << " at " << magnitude;
        ASSERT_LE(std::abs(value), 2 * std::max(magnitude, 1e-6f)) << format.name << " at " << magnitude;
      }
    }
  }
}

TEST(Quantize, TakesConstantsAndOneLargeValue) {
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize()) continue;
    for (const float constant : {0.25f, -0.25f}) {
      std::vector<float> values(256, constant), decoded(256);
      std::vector<std::byte> bytes(storage_bytes(format, 256));
      quantize(format, values.data(), bytes, 256);
      dequantize(format, bytes, decoded.data(), 256);
      for (const float value : decoded) ASSERT_NEAR(value, constant, 0.002f) << format.name;
      values.assign(256, 0.0f);
      values[200] = 4 * constant;
      quantize(format, values.data(), bytes, 256);
      dequantize(format, bytes, decoded.data(), 256);
      EXPECT_NEAR(decoded[200], 4 * constant, 0.01f) << format.name;
      EXPECT_NEAR(decoded[100], 0.0f, 0.01f) << format.name;
    }
  }
}

TEST(Quantize, WeighsTheImportantColumnsMore) {
  const BlockFormat& format = format_named("Q2_K");
  const std::vector<float> values = test_values();
  std::vector<float> factors(kColumns, 0.0f);
  for (std::size_t c = 0; c < kColumns; c += 4) factors[c] = 1e6f;
  EXPECT_LT(error_of(format, factors) / 1e6, 0.25 * 0.8 * error_of(format, {}));
  // If the importance of a whole block is 0, its elements get equal weights.
  EXPECT_DOUBLE_EQ(error_of(format, std::vector<float>(kColumns, 0.0f)), 0.0);
}

TEST(Quantize, GivesTheSameBlocksByRanges) {
  const std::vector<float> values = test_values();
  const auto count = static_cast<std::int64_t>(values.size()), half = count / 2 + 256;
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize() || format.tail != 0) continue;
    std::vector<std::byte> whole(storage_bytes(format, count)), parts(whole.size());
    quantize(format, values.data(), whole, count);
    const std::size_t first = storage_bytes(format, half);
    quantize(format, values.data(), std::span(parts).first(first), half);
    quantize(format, values.data() + half, std::span(parts).subspan(first), count - half);
    EXPECT_EQ(whole, parts) << format.name;
  }
}

TEST(Quantize, GivesTheSameBytesOnSeveralThreadsAsOnOne) {
  std::vector<float> values;
  for (int copies = 0; copies < 10; ++copies) {
    const std::vector<float> some = test_values();
    values.insert(values.end(), some.begin(), some.end());
  }
  const auto count = static_cast<std::int64_t>(values.size()), part = std::int64_t{4096};
  for (const BlockFormat& format : block_formats()) {
    if (!format.can_quantize() || format.tail != 0) continue;
    std::vector<std::byte> whole(storage_bytes(format, count)), block(storage_bytes(format, part));
    std::vector<float> decoded(values.size()), alone(static_cast<std::size_t>(part));
    quantize(format, values.data(), whole, count);
    dequantize(format, whole, decoded.data(), count);
    for (std::int64_t at = 0; at < count; at += 12 * part) {
      quantize(format, values.data() + at, block, part);
      const auto from = static_cast<std::ptrdiff_t>(storage_bytes(format, at));
      ASSERT_TRUE(std::equal(block.begin(), block.end(), whole.begin() + from)) << format.name;
      dequantize(format, block, alone.data(), part);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), decoded.begin() + at)) << format.name;
    }
  }
}

TEST(I2S, LiesAsBitNetWritesIt) {
  // Byte i of a block holds elements i, i + 32, i + 64 and i + 96, the first in the two highest bits.
  std::vector<float> values(128, 0.0f);
  values[0] = 0.5f;
  values[32] = -0.5f;
  values[64 + 5] = 0.5f;
  std::vector<std::byte> bytes(storage_bytes(format_named("I2_S"), 128));
  ASSERT_EQ(bytes.size(), 64u);
  quantize(format_named("I2_S"), values.data(), bytes, 128);
  EXPECT_EQ(bytes[0], std::byte{0b10'00'01'01});
  EXPECT_EQ(bytes[5], std::byte{0b01'01'10'01});
  EXPECT_EQ(bytes[31], std::byte{0b01'01'01'01});
  float scale = 0;
  std::memcpy(&scale, &bytes[32], sizeof scale);
  EXPECT_EQ(scale, 0.5f);
}

TEST(PlainFormats, DecodeEveryHalf) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<float> decoded(bits.size());
  dequantize(format_named("F16"), std::as_bytes(std::span(bits)), decoded.data(), 65536);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    Half half;
    half.bits = bits[i];
    const float wanted = static_cast<float>(half);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(decoded[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]), std::bit_cast<std::uint32_t>(wanted)) << i;
    }
  }
}

TEST(PlainFormats, DecodeEveryNumber) {
  const auto decoded = [](const char* name, const auto& numbers) {
    std::vector<float> out(numbers.size());
    dequantize(format_named(name), std::as_bytes(std::span(numbers)), out.data(),
               static_cast<std::int64_t>(out.size()));
    return out;
  };
  EXPECT_EQ(decoded("F64", std::vector<double>{0.1, -1e300}),
            (std::vector<float>{0.1f, -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(decoded("I8", std::vector<std::int8_t>{-128, 127}), (std::vector<float>{-128, 127}));
  EXPECT_EQ(decoded("I16", std::vector<std::int16_t>{-32768, 7}), (std::vector<float>{-32768, 7}));
  EXPECT_EQ(decoded("I32", std::vector<std::int32_t>{-5, 1 << 24}), (std::vector<float>{-5, 1 << 24}));
  EXPECT_EQ(decoded("I64", std::vector<std::int64_t>{-5, 9}), (std::vector<float>{-5, 9}));
  EXPECT_EQ(decoded("F16", std::vector<std::uint16_t>{0x3c00, 0x0001}), (std::vector<float>{1, 0x1p-24f}));
  EXPECT_EQ(decoded("BF16", std::vector<std::uint16_t>{0x3f80, 0xc000}), (std::vector<float>{1, -2}));
}

}  // namespace
}  // namespace etna::quant
