#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/vulkan/commands/context.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class VulkanMemory : public VulkanTest {};

TEST_F(VulkanMemory, CarriesAnySizeAtAnyOffset) {
  StoragePtr storage = allocate(kVulkan, 4096);
  std::vector<std::uint8_t> host(4096, 0xee), bytes(4096);
  etna::upload(host.data(), *storage, 0, host.size());
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  for (std::size_t size : {1u, 2u, 3u, 5u, 255u, 1021u}) {
    std::size_t at = size * 3 + 1;
    etna::upload(bytes.data(), *storage, at, size);
    std::copy_n(bytes.begin(), size, host.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::vector<std::uint8_t> back(4001);
  etna::download(*storage, 7, back.data(), back.size());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), host.begin() + 7));
}

TEST_F(VulkanMemory, CarriesMoreThanTheStagingRingHolds) {
  std::size_t words = (2 * Staging::kRing + Staging::kPiece / 2) / 4 + 13;
  Words host(words);
  for (std::size_t i = 0; i < words; ++i) host[i] = static_cast<std::uint32_t>(i * 2654435761u);
  StoragePtr storage = store(host);
  EXPECT_TRUE(load(*storage, words) == host);
}

TEST_F(VulkanMemory, ManySmallUploadsGoRoundTheRing) {
  constexpr std::uint32_t words = 300000;
  StoragePtr storage = allocate(kVulkan, words * 4);
  for (std::uint32_t round = 0; round < 60; ++round) {
    Words host(words, round);
    etna::upload(host.data(), *storage, 0, words * 4);
  }
  EXPECT_TRUE(load(*storage, words) == Words(words, 59));
}

TEST_F(VulkanMemory, FreedBytesAreReusedInStreamOrder) {
  StoragePtr source = store(Words(1 << 16, 3)), sum = store(Words(1 << 16));
  std::uint64_t first = 0;
  for (std::uint32_t round = 1; round <= 20; ++round) {
    StoragePtr temporary = allocate(kVulkan, 4 << 16);
    if (!first) first = temporary->address();
    EXPECT_EQ(temporary->address(), first);
    dispatch({*source, 0, *temporary, 0, 1 << 16, round, 0});
    dispatch({*temporary, 0, *sum, (1 << 10) * round, 1 << 10, 1, 0});
  }
  Words got = load(*sum, 1 << 16);
  for (std::uint32_t round = 1; round <= 20; ++round) EXPECT_EQ(got[(1 << 10) * round], 3 * round);
}

TEST_F(VulkanMemory, IsTakenWhenItIsFirstUsed) {
  const std::uint64_t before = memory_stats(kVulkan).in_use;
  StoragePtr never = allocate_when_used(kVulkan, 4096), used = allocate_when_used(kVulkan, 4096);
  EXPECT_EQ(memory_stats(kVulkan).in_use, before);
  std::array<std::uint64_t, 8> seen{};
  std::vector<std::thread> threads;
  for (std::uint64_t& address : seen) threads.emplace_back([&] { address = used->address(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(seen[0], 0u);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[0]), 8);
  EXPECT_EQ(memory_stats(kVulkan).in_use, before + 4096);
  never.reset();
  used.reset();
  EXPECT_EQ(memory_stats(kVulkan).in_use, before);

  const StoragePtr huge = allocate_when_used(kVulkan, std::size_t{1} << 50);
  for (int time = 0; time < 2; ++time)
    EXPECT_THAT(message_of<OutOfMemory>([&] { huge->address(); }), HasSubstr("1024.0 TiB"));
}

TEST_F(VulkanMemory, WhatAnotherApiAllocatesIsInUseAndWithinTheLimit) {
  CachingAllocator& allocator = backend(kVulkan).allocator(kVulkan);
  constexpr auto kGradients = static_cast<std::size_t>(MemoryUse::gradients);
  empty_cache(kVulkan);
  const MemoryStats before = memory_stats(kVulkan);
  allocator.add_outside(std::uint64_t{1} << 40, MemoryUse::gradients);
  const MemoryStats with = memory_stats(kVulkan);
  EXPECT_EQ(with.in_use - before.in_use, std::uint64_t{1} << 40);
  EXPECT_EQ(with.by_use[kGradients] - before.by_use[kGradients], std::uint64_t{1} << 40);
  EXPECT_GE(with.peak, with.in_use);
  allocator.remove_outside(std::uint64_t{1} << 40, MemoryUse::gradients);
  EXPECT_EQ(memory_stats(kVulkan).in_use, before.in_use);

  allocate(kVulkan, std::size_t{100} << 20);  // cached
  ASSERT_GT(memory_stats(kVulkan).cached, std::uint64_t{90} << 20);
  ::setenv("ETNA_MEMORY_LIMIT", std::to_string(before.in_use + (std::uint64_t{101} << 20)).c_str(), 1);
  allocator.add_outside(std::uint64_t{60} << 20, MemoryUse::gradients);
  EXPECT_EQ(memory_stats(kVulkan).cached, before.cached) << "the cache makes room";
  EXPECT_THAT(message_of<OutOfMemory>([&] { allocator.add_outside(std::uint64_t{60} << 20, MemoryUse::gradients); }),
              HasSubstr("no room for 60.0 MiB of gradients that are shared with another process"));
  EXPECT_THROW(allocate(kVulkan, std::size_t{60} << 20), OutOfMemory);
  allocator.remove_outside(std::uint64_t{60} << 20, MemoryUse::gradients);
  EXPECT_NE(allocate(kVulkan, std::size_t{60} << 20)->address(), 0u);
  ::unsetenv("ETNA_MEMORY_LIMIT");
  empty_cache(kVulkan);
}

TEST_F(VulkanMemory, OutOfMemoryNamesTheLimit) {
  EXPECT_THAT(message_of<OutOfMemory>([] { allocate(kVulkan, std::size_t{1} << 50); }), HasSubstr("at most"));
  empty_cache(kVulkan);
  ::setenv("ETNA_MEMORY_LIMIT", "1000000", 1);
  std::string message = message_of<OutOfMemory>([] { allocate(kVulkan, std::size_t{1} << 26); });
  ::unsetenv("ETNA_MEMORY_LIMIT");
  EXPECT_THAT(message, HasSubstr("ETNA_MEMORY_LIMIT is 976.6 KiB"));
  EXPECT_NE(allocate(kVulkan, std::size_t{1} << 26)->address(), 0u);
}

TEST_F(VulkanMemory, AddressesOutsideItsAllocationsAreRefused) {
  EXPECT_THROW(DeviceQueue(kVulkan).upload("abcd", 64, 4), DeviceError);
  StoragePtr host = allocate(kCPU, 64), storage = allocate(kVulkan, 64);
  EXPECT_THAT(message_of<DeviceError>([&] { enqueue_copy(kVulkan, *host, 0, *storage, 0, 64); }),
              HasSubstr("the storage is on cpu"));
}

TEST_F(VulkanMemory, UnknownAdaptersAreAnError) {
  EXPECT_THROW(allocate(Device(DeviceType::vulkan, 63), 64), DeviceError);
  EXPECT_THROW(capabilities(kCPU), DeviceError);
}

class VulkanAdapters : public VulkanTest {};

TEST_F(VulkanAdapters, AreThoseThatAListNames) {
  using List = std::vector<std::size_t>;
  EXPECT_EQ(visible_adapters("1,0", 3), (List{1, 0}));
  EXPECT_EQ(visible_adapters("vulkan:2", 3), List{2});
  EXPECT_EQ(visible_adapters("", 3), List{});
  EXPECT_EQ(visible_adapters("none", 0), List{});
  const auto error_of = [](const char* list, std::size_t count) {
    return message_of<DeviceError>([&] { visible_adapters(list, count); });
  };
  for (const char* list : {"x", "-1", "0,", ",0", "0 1", "1.5", "vulkan:", "cuda:0", "99999999999999999999"})
    EXPECT_THAT(error_of(list, 3), HasSubstr("write numbers of devices")) << list;
  EXPECT_EQ(error_of("3", 3), "ETNA_VISIBLE_DEVICES is '3', but the Vulkan devices are 0 to 2");
  EXPECT_THAT(error_of("1", 1), HasSubstr("the only Vulkan device is 0"));
  EXPECT_THAT(error_of("0", 0), HasSubstr("no Vulkan device is there"));
  EXPECT_THAT(error_of("2,1,2", 3), HasSubstr("names 2 twice"));
}

/// Each test has its own cache in an empty folder.
class VulkanPipelineCache : public VulkanTest {
 protected:
  VulkanPipelineCache() {
    if (const char* before = std::getenv("ETNA_CACHE_DIR")) before_ = before;
    ::setenv("ETNA_CACHE_DIR", folder_.string().c_str(), 1);
  }
  ~VulkanPipelineCache() override {
    ::setenv("ETNA_CACHE_DIR", before_.c_str(), 1);
    fs::remove_all(folder_);
  }
  static PipelineCache open() { return PipelineCache(Context::of(kVulkan).logical); }

  std::string before_;
  fs::path folder_ = fs::path(::testing::TempDir()) / ("etna_cache_" + std::to_string(::getpid()));
};

TEST_F(VulkanPipelineCache, IsKeptOnDisk) {
  PipelineCache cache = open();
  EXPECT_FALSE(cache.loaded());
  cache.save();
  EXPECT_FALSE(fs::exists(cache.file())) << "nothing was made, nothing is written";
  cache.note_pipeline();
  cache.save();
  ASSERT_TRUE(fs::exists(cache.file()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no temporary file stays";
  EXPECT_TRUE(open().loaded());
}

TEST_F(VulkanPipelineCache, ADamagedFileIsNotUsed) {
  PipelineCache cache = open();
  cache.note_pipeline();
  cache.save();
  std::string good;
  {
    std::ifstream in(cache.file(), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto loads = [&](const std::string& bytes) {
    std::ofstream(cache.file(), std::ios::binary) << bytes;
    return open().loaded();
  };
  EXPECT_TRUE(loads(good));
  for (std::size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_FALSE(loads(bad)) << "byte " << at;
    EXPECT_FALSE(loads(good.substr(0, at))) << "cut at " << at;
  }
  EXPECT_FALSE(loads(good + "x"));
}

TEST_F(VulkanPipelineCache, AFolderThatCannotBeWrittenIsNotMissed) {
  std::ofstream(folder_.string()) << "a file, not a folder";
  PipelineCache cache = open();
  cache.note_pipeline();
  EXPECT_NO_THROW(cache.save());
}

}  // namespace
}  // namespace etna::vulkan
