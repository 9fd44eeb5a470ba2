#include <etna/device/memory_control.h>

#include <stdlib.h>

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/internal/fake/backend.h>
#include <etna/device/memory.h>

#include "vulkan_fixture.h"

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Each test has a device of its own, whose allocator nobody else uses.
class MemoryControl : public testing::Test {
 protected:
  MemoryControl() { set_strict(false); }
  ~MemoryControl() override { set_strict(before_); }

  static Device device_with(std::uint64_t memory, std::uint64_t most_at_once = ~std::uint64_t{0}) {
    return fake::add({.memory = memory, .most_at_once = most_at_once});
  }

 private:
  bool before_ = strict();
};

TEST_F(MemoryControl, ReadsNumbersOfBytes) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("1500"), 1500u);
  EXPECT_EQ(parse_bytes(" 512 MiB "), 512 * kMiB);
  EXPECT_EQ(parse_bytes("512m"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1536 * kMiB);
  EXPECT_EQ(parse_bytes("2KB"), 2000u);
  EXPECT_EQ(parse_bytes("1TiB"), kMiB << 20);
  EXPECT_EQ(parse_bytes("7b"), 7u);
  EXPECT_EQ(parse_bytes("25%", 1000), 250u);
  for (const char* wrong : {"", "-1", "x", "1X", "1 GiB more", "nan", "inf", "25%", "1e400", "9999999TiB", "\xff"}) {
    EXPECT_THAT([&] { parse_bytes(wrong); }, ThrowsMessage<Error>(HasSubstr("write 1500"))) << wrong;
  }
  EXPECT_THAT([] { parse_bytes("101%", 1000); }, ThrowsMessage<Error>(HasSubstr("'101%'")));
}

TEST_F(MemoryControl, KeepsWhatIsFreedUpToTheLimit) {
  const Device device = device_with(1024 * kMiB);
  EXPECT_EQ(cache_limit(device), kNoCacheLimit);
  allocate(device, 96 * kMiB);
  EXPECT_EQ(memory_stats(device).cached, 96 * kMiB) << "without a limit all is kept";
  set_cache_limit(device, 60 * kMiB);
  EXPECT_EQ(cache_limit(device), 60 * kMiB);
  EXPECT_EQ(memory_stats(device).cached, 0u) << "a lower limit counts at once";
  StoragePtr a = allocate(device, 40 * kMiB), b = allocate(device, 48 * kMiB), c = allocate(device, 10 * kMiB);
  const std::uint64_t of_a = a->address(), of_b = b->address(), of_c = c->address();
  EXPECT_EQ(memory_stats(device).cached, 54 * kMiB) << "the rest of the 64 MiB that c shares with later tensors";
  set_cache_limit(device, 110 * kMiB);
  a.reset();
  EXPECT_EQ(memory_stats(device).cached, 94 * kMiB);
  b.reset();
  EXPECT_EQ(memory_stats(device).cached, 102 * kMiB) << "a, the longest unused, went back, b stayed";
  c.reset();
  EXPECT_EQ(memory_stats(device).cached, 64 * kMiB) << "then b";
  EXPECT_EQ(allocate(device, 10 * kMiB)->address(), of_c);
  EXPECT_NE(of_a, of_b);
  set_cache_limit(device, kNoCacheLimit);
  allocate(device, 512 * kMiB);
  EXPECT_EQ(memory_stats(device).cached, 576 * kMiB);
}

TEST_F(MemoryControl, KeepsNothingUnderALimitOfZero) {
  const Device device = device_with(1024 * kMiB);
  set_cache_limit(device, 0);
  for (int time = 0; time < 3; ++time) {
    StoragePtr large = allocate(device, 3 * kMiB + 1), small = allocate(device, 1000);
    EXPECT_LE(memory_stats(device).reserved(), 9 * kMiB) << "no shared piece of 64 MiB";
    large.reset();
    small.reset();
    EXPECT_EQ(memory_stats(device).reserved(), 0u);
  }
  StoragePtr kept = allocate(device, 1000), freed = allocate(device, 2000);
  freed.reset();
  EXPECT_EQ(memory_stats(device).reserved(), 4 * kMiB) << "a piece with a live tensor stays";
}

TEST_F(MemoryControl, LimitsAreReadFromTheEnvironment) {
  ::setenv("ETNA_CACHE_LIMIT", "25%,cpu=1GiB", 1);
  EXPECT_EQ(cache_limit(device_with(400 * kMiB)), 100 * kMiB);
  ::setenv("ETNA_CACHE_LIMIT", "soon", 1);
  const Device device = device_with(400 * kMiB);
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT([&] { allocate(device, 1); },
                ThrowsMessage<Error>(AllOf(HasSubstr("ETNA_CACHE_LIMIT is 'soon'"), HasSubstr("512MiB"))));
  }
  ::setenv("ETNA_CACHE_LIMIT", "cuda:0=1GiB", 1);
  EXPECT_THAT([&] { allocate(device, 1); }, ThrowsMessage<Error>(HasSubstr("write vulkan:0")));
  ::unsetenv("ETNA_CACHE_LIMIT");
  EXPECT_NE(allocate(device, 1), nullptr);
}

TEST_F(MemoryControl, TrimsAndSaysWhatItGaveBack) {
  const Device device = device_with(1024 * kMiB);
  StoragePtr live = allocate(device, 100);
  allocate(device, 96 * kMiB);
  EXPECT_EQ(trim_memory(device), 96 * kMiB);
  EXPECT_EQ(trim_memory(device), 0u);
  EXPECT_EQ(memory_stats(device).reserved(), 4 * kMiB);
}

TEST_F(MemoryControl, TrimsADeviceThatNobodyUses) {
  const Device idle = device_with(1024 * kMiB), busy = device_with(1024 * kMiB);
  allocate(idle, 96 * kMiB);
  allocate(busy, 96 * kMiB);
  trim_when_idle(0.02);
  EXPECT_EQ(memory_stats(idle).cached, 96 * kMiB) << "idle is what two calls see, far enough apart";
  std::this_thread::sleep_for(30ms);
  allocate(busy, 96 * kMiB);
  EXPECT_GE(trim_when_idle(0.02), 96 * kMiB);
  EXPECT_EQ(memory_stats(idle).cached, 0u);
  EXPECT_EQ(memory_stats(busy).cached, 96 * kMiB);
  trim_when_idle(0);
  EXPECT_EQ(memory_stats(busy).cached, 0u);
}

TEST_F(MemoryControl, CutsTensorsFromWhatIsReserved) {
  const Device device = device_with(256 * kMiB);
  reserve_memory(device, 192 * kMiB);
  EXPECT_EQ(reserved_memory(device), 192 * kMiB);
  EXPECT_EQ(memory_stats(device).reserved(), 192 * kMiB);
  std::vector<StoragePtr> live;
  for (int i = 0; i < 50; ++i) live.push_back(allocate(device, 1000));
  for (int i = 0; i < 3; ++i) live.push_back(allocate(device, 48 * kMiB));
  EXPECT_EQ(memory_stats(device).reserved(), 192 * kMiB) << "large and small ones come from there";
  for (const StoragePtr& one : live) EXPECT_EQ(one->address() % 256, 0u);
  trim_memory(device);
  reserve_memory(device, 0);
  EXPECT_EQ(reserved_memory(device), 192 * kMiB) << "it holds tensors";
  live.clear();
  EXPECT_EQ(memory_stats(device).in_use, 0u);
  EXPECT_EQ(trim_memory(device), 0u);
  EXPECT_EQ(memory_stats(device).cached, 192 * kMiB) << "it stays";
  EXPECT_NE(allocate(device, 192 * kMiB), nullptr) << "in one piece again";
  reserve_memory(device, 100 * kMiB);
  EXPECT_EQ(reserved_memory(device), 192 * kMiB) << "no less than before";
  reserve_memory(device, 0);
  EXPECT_EQ(memory_stats(device).reserved(), 0u);
}

TEST_F(MemoryControl, ACacheLimitLeavesTheReserveAlone) {
  const Device device = device_with(256 * kMiB);
  reserve_memory(device, 100 * kMiB);
  set_cache_limit(device, 0);
  allocate(device, 50 * kMiB);
  allocate(device, 500);
  EXPECT_EQ(memory_stats(device).cached, 100 * kMiB);
  StoragePtr most = allocate(device, 90 * kMiB);
  allocate(device, 40 * kMiB);
  EXPECT_EQ(memory_stats(device).reserved(), 100 * kMiB) << "what did not fit went back";
}

TEST_F(MemoryControl, GivesUpTheReserveBeforeItFails) {
  const Device device = device_with(256 * kMiB);
  reserve_memory(device, 200 * kMiB);
  EXPECT_NE(allocate(device, 220 * kMiB), nullptr);
  EXPECT_EQ(reserved_memory(device), 0u);
}

TEST_F(MemoryControl, AReserveThatDoesNotFitIsAnErrorAtOnce) {
  const Device device = device_with(256 * kMiB);
  EXPECT_THAT([&] { reserve_memory(device, 300 * kMiB); },
              ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("no room to reserve 300.0 MiB"), HasSubstr("256.0 MiB"))));
  EXPECT_THAT([&] { reserve_memory(device, ~std::uint64_t{0}); }, ThrowsMessage<OutOfMemory>(HasSubstr("reserve")));
  EXPECT_EQ(memory_stats(device).reserved(), 0u);
  EXPECT_THAT([] { reserve_memory(kCPU, std::uint64_t{1} << 50); },
              ThrowsMessage<OutOfMemory>(HasSubstr("are available")));

  const Device pieces = device_with(1024 * kMiB, 128 * kMiB);
  reserve_memory(pieces, 500 * kMiB);
  EXPECT_EQ(reserved_memory(pieces), 500 * kMiB) << "a driver that gives little at once";
  const Device crumbs = device_with(1024 * kMiB, 10 * kMiB);
  EXPECT_THAT([&] { reserve_memory(crumbs, 500 * kMiB); }, ThrowsMessage<OutOfMemory>(HasSubstr("at most 10.0 MiB")));
  EXPECT_EQ(memory_stats(crumbs).reserved(), 0u);
}

TEST_F(MemoryControl, ReservesByTheEnvironment) {
  ::setenv("ETNA_PREALLOCATE", "64MiB", 1);
  const Device device = device_with(256 * kMiB), small = device_with(32 * kMiB);
  StoragePtr first = allocate(device, 100);
  EXPECT_EQ(memory_stats(device).reserved(), 64 * kMiB);
  EXPECT_EQ(reserved_memory(kCPU), 0u) << "a number without a device is not the CPU's";
  EXPECT_THAT([&] { allocate(small, 100); }, ThrowsMessage<OutOfMemory>(HasSubstr("no room to reserve 64.0 MiB")));
  ::unsetenv("ETNA_PREALLOCATE");
}

TEST_F(MemoryControl, MemoryLimitsTakeUnits) {
  const Device device = device_with(256 * kMiB);
  ::setenv("ETNA_MEMORY_LIMIT", "100 MiB", 1);
  EXPECT_THAT([&] { allocate(device, 120 * kMiB); }, ThrowsMessage<OutOfMemory>(HasSubstr("LIMIT is 100.0 MiB")));
  EXPECT_THAT([&] { reserve_memory(device, 120 * kMiB); }, ThrowsMessage<OutOfMemory>(HasSubstr("LIMIT is 100.0 MiB")));
  ::setenv("ETNA_MEMORY_LIMIT", "many", 1);
  EXPECT_THAT([&] { allocate(device, 120 * kMiB); }, ThrowsMessage<Error>(HasSubstr("ETNA_MEMORY_LIMIT: 'many'")));
  ::unsetenv("ETNA_MEMORY_LIMIT");
}

class VulkanMemoryControl : public vulkan::VulkanTest {};

TEST_F(VulkanMemoryControl, WaitsForWorkBeforeMemoryGoesBack) {
  empty_cache(kVulkan);
  set_cache_limit(kVulkan, 0);
  StoragePtr source = store(Words(1 << 20, 3)), sum = store(Words(1 << 10));
  const std::uint64_t before = memory_stats(kVulkan).reserved();
  for (std::uint32_t round = 1; round <= 10; ++round) {
    StoragePtr temporary = allocate(kVulkan, 40 * kMiB);
    dispatch({*source, 0, *temporary, 0, 1 << 20, round, 0});
    dispatch({*temporary, 0, *sum, round, 1, 1, 0});
  }
  EXPECT_LE(memory_stats(kVulkan).reserved(), before);
  const Words got = load(*sum, 11);
  for (std::uint32_t round = 1; round <= 10; ++round) EXPECT_EQ(got[round], 3 * round);
  set_cache_limit(kVulkan, kNoCacheLimit);
}

TEST_F(VulkanMemoryControl, KernelsRunInReservedMemory) {
  empty_cache(kVulkan);
  reserve_memory(kVulkan, 32 * kMiB);
  const std::uint64_t before = memory_stats(kVulkan).reserved();
  StoragePtr source = store(Words(1 << 18, 5)), target = allocate(kVulkan, 1 << 20), small = store(Words(4, 7));
  dispatch({*source, 0, *target, 0, 1 << 18, 2, 1});
  EXPECT_EQ(load(*target, 1, 1000)[0], 11u);
  EXPECT_EQ(load(*small, 4), Words(4, 7));
  EXPECT_EQ(memory_stats(kVulkan).reserved(), before);
  source.reset(), target.reset(), small.reset();
  reserve_memory(kVulkan, 0);
  EXPECT_EQ(reserved_memory(kVulkan), 0u);
}

}  // namespace
}  // namespace etna
