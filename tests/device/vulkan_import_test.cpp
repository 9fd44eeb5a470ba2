#include <numeric>

#include <etna/device/internal/host_import.h>
#include <etna/device/internal/os/memory.h>
#include <etna/device/internal/vulkan/commands/context.h>

#include "vulkan_fixture.h"

// Memory of the host that a GPU reads in place.
namespace etna::vulkan {
namespace {

constexpr std::size_t kPage = 4096, kPages = 64;

/// Pages of numbers, and whether they are still kept.
struct Pages {
  std::shared_ptr<std::byte> owner;
  std::span<std::uint32_t> words;

  Pages() {
    std::error_code error;
    owner = {os::take_pages(kPages * kPage, error), [](std::byte* at) { os::return_pages(at, kPages * kPage); }};
    words = {reinterpret_cast<std::uint32_t*>(owner.get()), kPages * kPage / 4};
    std::iota(words.begin(), words.end(), 1u);
  }
  std::span<const std::byte> bytes(std::size_t begin, std::size_t size) const { return {owner.get() + begin, size}; }
};

class VulkanImport : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (!IsSkipped() && Context::of(kVulkan).logical.adapter.host_import_alignment == 0)
      GTEST_SKIP() << "the adapter does not read memory of the host";
  }
};

TEST_F(VulkanImport, KernelsAndCopiesReadItInPlace) {
  Pages pages;
  const std::uint64_t before = memory_stats(kVulkan).in_use;
  // Neither the beginning nor the end is that of a page.
  constexpr std::size_t kBegin = kPage + 48, kWords = 30'000;
  const StoragePtr storage = import_host(kVulkan, pages.bytes(kBegin, kWords * 4), pages.owner);
  ASSERT_NE(storage, nullptr);
  EXPECT_EQ(storage->bytes(), kWords * 4);
  EXPECT_TRUE(is_imported(*storage));
  EXPECT_FALSE(is_imported(*allocate(kVulkan, 4096)));
  EXPECT_EQ(memory_stats(kVulkan).in_use, before);
  EXPECT_EQ(load(*storage, kWords), Words(pages.words.begin() + kBegin / 4, pages.words.begin() + kBegin / 4 + kWords));
  const StoragePtr sums = allocate(kVulkan, kWords * 4);
  dispatch({*storage, 0, *sums, 0, kWords, 3, 5});
  const Words got = load(*sums, kWords);
  for (std::size_t i = 0; i < kWords; i += 997) EXPECT_EQ(got[i], pages.words[kBegin / 4 + i] * 3 + 5);
}

TEST_F(VulkanImport, KeepsItsOwnerUntilTheDeviceIsDone) {
  Pages pages;
  const StoragePtr target = allocate(kVulkan, 80'000);
  StoragePtr storage = import_host(kVulkan, pages.bytes(0, 80'000), pages.owner);
  ASSERT_NE(storage, nullptr);
  const std::weak_ptr<std::byte> owner = pages.owner;
  pages.owner.reset();
  EXPECT_FALSE(owner.expired());
  dispatch({*storage, 0, *target, 0, 20'000, 1, 7});
  storage.reset();
  EXPECT_TRUE(owner.expired());
  const Words got = load(*target, 20'000);
  EXPECT_EQ(got.front(), 8u);
  EXPECT_EQ(got.back(), 20'007u);
}

TEST_F(VulkanImport, NeighboursMayShareAPage) {
  Pages pages;
  constexpr std::size_t kFirst = 70'000, kSecond = 90'000;
  StoragePtr a = import_host(kVulkan, pages.bytes(0, kFirst), pages.owner);
  const StoragePtr b = import_host(kVulkan, pages.bytes(kFirst, kSecond), pages.owner);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(load(*a, 1, kFirst / 4 - 1)[0], kFirst / 4);
  EXPECT_EQ(load(*b, 1)[0], kFirst / 4 + 1);
  a.reset();
  EXPECT_EQ(load(*b, 1, kSecond / 4 - 1)[0], (kFirst + kSecond) / 4);
}

TEST_F(VulkanImport, LeavesWhatItCannotReadToACopy) {
  Pages pages;
  EXPECT_EQ(import_host(kVulkan, pages.bytes(0, 1000), pages.owner), nullptr);
  EXPECT_EQ(import_host(kVulkan, pages.bytes(0, 0), pages.owner), nullptr);
  EXPECT_EQ(import_host(kVulkan, pages.bytes(8, 80'000), pages.owner), nullptr);
  EXPECT_EQ(import_host(kCPU, pages.bytes(0, 80'000), pages.owner), nullptr);
  ::setenv("ETNA_COPY_WEIGHTS", "1", 1);
  EXPECT_EQ(import_host(kVulkan, pages.bytes(0, 80'000), pages.owner), nullptr);
  ::unsetenv("ETNA_COPY_WEIGHTS");
  EXPECT_NE(import_host(kVulkan, pages.bytes(0, 80'000), pages.owner), nullptr);
}

}  // namespace
}  // namespace etna::vulkan
