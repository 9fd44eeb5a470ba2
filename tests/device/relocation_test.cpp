#include <array>

#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/vulkan/graph/relocation.h>

namespace {

using namespace etna::vulkan;
using Words = std::array<std::uint32_t, 4>;

constexpr std::uint64_t kStandIn = 0xFFF5'E123'0000'1000ull, kReal = 0x7F00'1234'5678'9000ull;
/// Addresses whose lower half looks like the upper half of a stand-in.
constexpr std::uint64_t kMisleading = 0xFFF5'E123'FFF5'EC00ull, kMisleadingReal = 0x0000'7F00'FFF5'EC00ull;

std::optional<std::uint64_t> relocated(std::uint64_t address) {
  if (address == kStandIn || address == kMisleading) return kReal;
  if (address == kMisleadingReal) return address;
  return {};
}

std::uint32_t lower(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t upper(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

Words relocated_words(Words words) {
  relocate(std::as_writable_bytes(std::span(words)), relocated);
  return words;
}

TEST(Relocation, ReplacesStandInsWhereverTheyLie) {
  const Words behind = relocated_words({7, lower(kStandIn), upper(kStandIn), 9});
  EXPECT_EQ(behind, (Words{7, lower(kReal), upper(kReal), 9}));
  const Words last = relocated_words({7, 8, lower(kStandIn), upper(kStandIn)});
  EXPECT_EQ(last, (Words{7, 8, lower(kReal), upper(kReal)}));
}

TEST(Relocation, LeavesNumbersAlone) {
  const Words words{lower(kReal), upper(kReal), 0xFFF5'DFFF, 0x3F80'0000};
  EXPECT_EQ(relocated_words(words), words);
}

TEST(Relocation, TakesTheLowerHalfOfAnAddressForNoUpperHalf) {
  const Words stand_in = relocated_words({0xDE, lower(kMisleading), upper(kMisleading), 9});
  EXPECT_EQ(stand_in, (Words{0xDE, lower(kReal), upper(kReal), 9}));
  const Words real{0xDE, lower(kMisleadingReal), upper(kMisleadingReal), 9};
  EXPECT_EQ(relocated_words(real), real);
}

TEST(Relocation, RefusesAStandInOfAnotherRecording) {
  EXPECT_THROW(relocated_words({1, 2, 0xDE, 0xFFF5'EC00}), etna::CaptureError);
}

TEST(Relocation, RefusesWordsThatAreAddressesInTwoWays) {
  // Both the first two words and the second two are addresses that the recording knows.
  std::array<std::uint32_t, 3> words{0x1000, 0xFFF5'E123, 0xFFF5'E123};
  auto both = [](std::uint64_t) { return std::optional<std::uint64_t>(kReal); };
  EXPECT_THROW(relocate(std::as_writable_bytes(std::span(words)), both), etna::CaptureError);
}

}  // namespace
