#include <etna/device/internal/vulkan/api/half_conversion.h>
#include <etna/shaders/shaders.h>
#include <gtest/gtest.h>

// What pipelines add to a shader's SPIR-V if a device guarantees its rounding to f16.
// tests/ops/elementwise/half_test.cpp checks on tensors that the bits are then right.
namespace etna::vulkan {
namespace {

using HalfConversionWords = std::vector<std::uint32_t>;

/// The instructions of a module, each as its words.
std::vector<HalfConversionWords> instructions(std::span<const std::uint32_t> words) {
  std::vector<HalfConversionWords> all;
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const auto part = words.subspan(at, words[at] >> 16);
    all.emplace_back(part.begin(), part.end());
  }
  return all;
}

constexpr std::uint32_t kExecutionMode = 4 << 16 | 16, kCapability = 2 << 16 | 17;

TEST(HalfConversion, IsDemandedAsPromised) {
  const std::span<const std::uint32_t> plain = shaders::elementwise_float.words;
  const HalfConversionWords normal = demanding(HalfConversion::normal, plain),
                            rounded = demanding(HalfConversion::rounded, plain);
  EXPECT_EQ(instructions(normal).size(), instructions(plain).size() + 2);
  EXPECT_EQ(instructions(rounded).size(), instructions(plain).size() + 4);
  // SPIR-V requires capabilities first, and execution modes right after the entry point.
  int modes = 0, capabilities = 0;
  std::uint32_t before = 0;
  for (const HalfConversionWords& w : instructions(rounded)) {
    if (w[0] == kCapability) {
      EXPECT_TRUE(before == 0 || (before & 0xffffu) == 17u);
      capabilities += w[1] == 4464 || w[1] == 4467;
    }
    if (w[0] == kExecutionMode && (w[2] == 4459 || w[2] == 4462)) {
      EXPECT_TRUE((before & 0xffffu) == 15u || (before & 0xffffu) == 16u);
      EXPECT_EQ(w[3], 16u);
      ++modes;
    }
    before = w[0];
  }
  EXPECT_EQ(modes, 2);
  EXPECT_EQ(capabilities, 2);
}

TEST(HalfConversion, IsLeftAloneWhereNothingIsPromisedOrWanted) {
  EXPECT_TRUE(demanding(HalfConversion::any, shaders::elementwise_float.words).empty());
  EXPECT_TRUE(demanding(HalfConversion::rounded, shaders::test_ranges.words).empty());
  EXPECT_TRUE(demanding(HalfConversion::rounded, {}).empty());
}

}  // namespace
}  // namespace etna::vulkan
