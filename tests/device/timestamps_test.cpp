#include <etna/device/internal/vulkan/commands/context.h>
#include <etna/device/internal/vulkan/commands/timestamps.h>
#include <etna/device/profile/profiler.h>

#include "vulkan_fixture.h"

namespace etna::vulkan {
namespace {

TEST(ClockLine, GoesThroughBothReadings) {
  ClockLine line({1000, 50'000, 10}, 2.0, 64);
  EXPECT_EQ(line.host_ns(1500, 0), 51'000);
  EXPECT_EQ(line.host_ns(500, 0), 49'000);
  // A clock that gained 100 millionths over ten seconds.
  line.correct({1000 + 5'000'500'000, 50'000 + 10'000'000'000, 10});
  EXPECT_EQ(line.host_ns(1000 + 5'000'500'000, 0), 50'000 + 10'000'000'000);
  EXPECT_LT(line.ns_per_tick(), 2.0);
}

TEST(ClockLine, KeepsItsSlopeWhereTheReadingsAreTooNear) {
  ClockLine line({0, 0, 500}, 1.0, 64);
  line.correct({1'000'000, 1'000'400, 500});
  EXPECT_EQ(line.ns_per_tick(), 1.0);
}

TEST(ClockLine, UnwrapsACounterNearTheHostTime) {
  const std::int64_t turn = std::int64_t{1} << 36;
  ClockLine line({static_cast<std::uint64_t>(turn) - 100, 1'000'000, 10}, 1.0, 36);
  EXPECT_EQ(line.host_ns(50, 1'000'000), 1'000'150) << "over the end of the counter";
  EXPECT_EQ(line.host_ns(50, 1'000'000 + 3 * turn), 1'000'150 + 3 * turn) << "three turns later";
  EXPECT_EQ(line.host_ns(static_cast<std::uint64_t>(turn) - 200, 1'000'000), 999'900) << "before the first reading";
}

using Timed = VulkanTest;

TEST_F(Timed, BothWaysToReadTheClocksAgree) {
  Context& context = Context::of(kVulkan);
  std::lock_guard lock(context.mutex);
  context.queue.finish();
  GpuClock best(context.logical), submits(context.logical, false);
  if (best.valid_bits() == 0) return;
  EXPECT_STREQ(submits.method(), "a timed submit");
  ClockPair first = best.read(), second = submits.read();
  ClockLine line(first, best.ns_per_tick(), best.valid_bits());
  const std::int64_t told = line.host_ns(second.ticks, second.host_ns);
  EXPECT_NEAR(static_cast<double>(told - second.host_ns), 0,
              static_cast<double>(first.error_ns + second.error_ns + 1000));
}

/// Commands encoded once and submitted three times, as a captured step is.
TEST_F(Timed, CommandsSubmittedAgainAreTimedEachTime) {
  Words words(1024, 5);
  StoragePtr x = store(words), y = store(words);
  etna::synchronize(kVulkan);
  Context& context = Context::of(kVulkan);
  std::lock_guard lock(context.mutex);
  const VolkDeviceTable& vk = context.logical.vk;
  Timestamps& timestamps = context.queue.timestamps();
  EXPECT_FALSE(timestamps.active());

  profile::Labels labels;
  {
    profile::KeepLabels keep;
    profile::Scope phase("optimizer", profile::Category::phase);
    labels = profile::Labels::now();
  }
  profile::start();
  if (!timestamps.active()) {
    profile::stop();
    return;
  }
  auto pool_info = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool_info.queueFamilyIndex = context.logical.adapter.queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  check(vk.vkCreateCommandPool(context.logical.handle, &pool_info, nullptr, &pool), "vkCreateCommandPool");
  auto info = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check(vk.vkAllocateCommandBuffers(context.logical.handle, &info, &commands), "vkAllocateCommandBuffers");

  profile::Profile seen;
  {
    TimedCommands timed;
    auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    check(vk.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    timed.reset(timestamps, commands, 2);
    for (int i = 0; i < 3; ++i) {  // one more than there is room for
      BufferSpan to = context.segments.find(y->address() + static_cast<std::uint64_t>(i) * 64, 64);
      timed.begin(commands, "fill", labels);
      vk.vkCmdFillBuffer(commands, to.buffer, to.offset, 64, 7);
      timed.end(commands);
    }
    timed.finish(commands);
    check(vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    for (int run = 0; run < 3; ++run) {
      timed.collect();
      auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
      submit.commandBufferCount = 1;
      submit.pCommandBuffers = &commands;
      const std::int64_t now = profile::detail::now_ns();
      check(vk.vkQueueSubmit(context.logical.queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
      timed.submitted(now);
      check(vk.vkQueueWaitIdle(context.logical.queue), "vkQueueWaitIdle");
    }
    seen = profile::stop();
  }
  vk.vkDestroyCommandPool(context.logical.handle, pool, nullptr);

  ASSERT_EQ(seen.gpus.size(), 1u);
  const profile::GpuProfile& gpu = seen.gpus[0];
  ASSERT_EQ(gpu.batches.size(), 3u);
  ASSERT_EQ(gpu.spans.size(), 6u);
  EXPECT_EQ(seen.dropped, 1u);
  for (const profile::GpuSpan& span : gpu.spans) {
    EXPECT_EQ(span.phase, std::string("optimizer"));
    EXPECT_GE(span.begin + gpu.clock_error_ns + 1'000, gpu.batches[span.batch].submitted);
  }
  for (std::size_t run = 1; run < 3; ++run) {
    EXPECT_GT(gpu.batches[run].submitted, gpu.batches[run - 1].submitted);
    EXPECT_GE(gpu.spans[2 * run].begin, gpu.spans[2 * run - 1].end);
    EXPECT_EQ(gpu.spans[2 * run].queued, gpu.batches[run].submitted);
  }
  EXPECT_EQ(load(*y, 1)[0], 7u);
}

}  // namespace
}  // namespace etna::vulkan
