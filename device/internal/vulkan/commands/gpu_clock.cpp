#include <etna/device/internal/vulkan/commands/gpu_clock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <etna/device/internal/vulkan/api/instance.h>
#include <etna/device/profile/profiler.h>

namespace etna::vulkan {
namespace {

constexpr int kTries = 5;  // the best one counts: the host thread may be preempted between two clock reads

std::uint32_t valid_bits_of(const Adapter& adapter) {
  std::uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(adapter.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(adapter.handle, &count, families.data());
  return adapter.queue_family < count ? families[adapter.queue_family].timestampValidBits : 0;
}

/// Null if the device cannot read its clock and CLOCK_MONOTONIC (steady_clock's) together.
PFN_vkGetCalibratedTimestampsEXT find_calibrated(const LogicalDevice& device) {
  for (const char* suffix : {"EXT", "KHR"}) {
    std::string of = suffix;
    if (!device.adapter.has_extension(("VK_" + of + "_calibrated_timestamps").c_str())) continue;
    auto domains_of = reinterpret_cast<PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT>(
        vkGetInstanceProcAddr(instance().handle, ("vkGetPhysicalDeviceCalibrateableTimeDomains" + of).c_str()));
    auto read = reinterpret_cast<PFN_vkGetCalibratedTimestampsEXT>(
        vkGetDeviceProcAddr(device.handle, ("vkGetCalibratedTimestamps" + of).c_str()));
    if (domains_of == nullptr || read == nullptr) continue;
    std::uint32_t count = 0;
    domains_of(device.adapter.handle, &count, nullptr);
    std::vector<VkTimeDomainEXT> domains(count);
    domains_of(device.adapter.handle, &count, domains.data());
    auto has = [&](VkTimeDomainEXT domain) { return std::count(domains.begin(), domains.end(), domain) > 0; };
    if (has(VK_TIME_DOMAIN_DEVICE_EXT) && has(VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT)) return read;
  }
  return nullptr;
}

}  // namespace

ClockLine::ClockLine(const ClockPair& start, double ns_per_tick, std::uint32_t valid_bits)
    : start_(start), slope_(ns_per_tick), valid_bits_(valid_bits) {}

double ClockLine::since_start(std::uint64_t ticks, std::int64_t near_ns) const {
  const double expected = static_cast<double>(near_ns - start_.host_ns) / slope_;
  if (valid_bits_ >= 64) return static_cast<double>(static_cast<std::int64_t>(ticks - start_.ticks));
  const std::uint64_t turn = std::uint64_t{1} << valid_bits_;
  const auto within = static_cast<double>((ticks - start_.ticks) & (turn - 1));
  return within + static_cast<double>(turn) * std::round((expected - within) / static_cast<double>(turn));
}

std::int64_t ClockLine::host_ns(std::uint64_t ticks, std::int64_t near_ns) const {
  return start_.host_ns + std::llround(since_start(ticks, near_ns) * slope_);
}

void ClockLine::correct(const ClockPair& later) {
  const double ticks = since_start(later.ticks, later.host_ns);
  const auto ns = static_cast<double>(later.host_ns - start_.host_ns);
  // Quartz clocks drift by about 50 parts per million. Over a shorter time than this, the errors of the two readings
  // would tilt the line more than the drift.
  constexpr double drift = 50e-6;
  if (ticks <= 0 || ns * drift < static_cast<double>(start_.error_ns + later.error_ns)) return;
  slope_ = ns / ticks;
}

GpuClock::GpuClock(const LogicalDevice& device, bool calibrated)
    : device_(device),
      valid_bits_(valid_bits_of(device.adapter)),
      calibrated_(calibrated ? find_calibrated(device) : nullptr) {}

GpuClock::~GpuClock() {
  device_.vk.vkDestroyFence(device_.handle, fence_, nullptr);
  device_.vk.vkDestroyQueryPool(device_.handle, query_, nullptr);
  device_.vk.vkDestroyCommandPool(device_.handle, pool_, nullptr);
}

ClockPair GpuClock::read() { return calibrated_ != nullptr ? read_calibrated() : read_bracketed(); }

ClockPair GpuClock::read_calibrated() {
  VkCalibratedTimestampInfoEXT clocks[2] = {
      structure<VkCalibratedTimestampInfoEXT>(VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT),
      structure<VkCalibratedTimestampInfoEXT>(VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT)};
  clocks[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
  clocks[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
  ClockPair best;
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t values[2] = {}, deviation = 0;
    check(calibrated_(device_.handle, 2, clocks, values, &deviation), "vkGetCalibratedTimestamps");
    if (i > 0 && static_cast<std::int64_t>(deviation) >= best.error_ns) continue;
    best = {values[0], static_cast<std::int64_t>(values[1]), static_cast<std::int64_t>(deviation)};
  }
  return best;
}

/// One timestamp, submitted alone: it was written between the submit and the end of the wait.
ClockPair GpuClock::read_bracketed() {
  const VolkDeviceTable& vk = device_.vk;
  if (fence_ == VK_NULL_HANDLE) {
    auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.queueFamilyIndex = device_.adapter.queue_family;
    check(vk.vkCreateCommandPool(device_.handle, &pool, nullptr, &pool_), "vkCreateCommandPool");
    auto buffer = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    buffer.commandPool = pool_;
    buffer.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    buffer.commandBufferCount = 1;
    check(vk.vkAllocateCommandBuffers(device_.handle, &buffer, &commands_), "vkAllocateCommandBuffers");
    auto query = structure<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
    query.queryType = VK_QUERY_TYPE_TIMESTAMP;
    query.queryCount = 1;
    check(vk.vkCreateQueryPool(device_.handle, &query, nullptr, &query_), "vkCreateQueryPool");
    auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    check(vk.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    vk.vkCmdResetQueryPool(commands_, query_, 0, 1);
    vk.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, query_, 0);
    check(vk.vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
    auto fence = structure<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
    check(vk.vkCreateFence(device_.handle, &fence, nullptr, &fence_), "vkCreateFence");
  }
  ClockPair best;
  for (int i = 0; i < kTries; ++i) {
    auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    const std::int64_t before = profile::detail::now_ns();
    check(vk.vkQueueSubmit(device_.queue, 1, &submit, fence_), "vkQueueSubmit");
    check(vk.vkWaitForFences(device_.handle, 1, &fence_, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    const std::int64_t after = profile::detail::now_ns();
    check(vk.vkResetFences(device_.handle, 1, &fence_), "vkResetFences");
    std::uint64_t ticks = 0;
    check(vk.vkGetQueryPoolResults(device_.handle, query_, 0, 1, sizeof ticks, &ticks, sizeof ticks,
                                   VK_QUERY_RESULT_64_BIT),
          "vkGetQueryPoolResults");
    const std::int64_t error = (after - before + 1) / 2;
    if (i > 0 && error >= best.error_ns) continue;
    best = {ticks, before + error, error};
  }
  return best;
}

}  // namespace etna::vulkan
