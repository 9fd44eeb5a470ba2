#pragma once

#include <cstdint>
#include <string>

#include <etna/device/internal/vulkan/api/logical_device.h>

namespace etna::vulkan {

/// The same moment on both clocks.
struct ClockPair {
  std::uint64_t ticks = 0;    ///< GPU timestamp
  std::int64_t host_ns = 0;   ///< std::chrono::steady_clock
  std::int64_t error_ns = 0;  ///< bound on the error of host_ns
};

/// Converts timestamps to host time by a line through one or two moments known on both clocks.
class ClockLine {
 public:
  ClockLine() = default;
  /// @param valid_bits of a timestamp, 1 to 64: it wraps around there
  ClockLine(const ClockPair& start, double ns_per_tick, std::uint32_t valid_bits);

  /// Adds a later moment, to correct drift. Ignored where it is so close that its error would outweigh the drift.
  void correct(const ClockPair& later);

  /// Nanoseconds of steady_clock. @param near_ns a host time within half a period of the counter (34 s at 36 bits of 1
  /// ns)
  std::int64_t host_ns(std::uint64_t ticks, std::int64_t near_ns) const;
  double ns_per_tick() const { return slope_; }

 private:
  /// Ticks since start_, unwrapped to the value nearest to a host time.
  double since_start(std::uint64_t ticks, std::int64_t near_ns) const;

  ClockPair start_;
  double slope_ = 1;
  std::uint32_t valid_bits_ = 64;
};

/// Reads both clocks of a device: by VK_EXT/KHR_calibrated_timestamps if available, otherwise by a submit that the host
/// times. The caller must own the queue during the call; an idle queue gives a good reading.
class GpuClock {
 public:
  /// @param calibrated false: use submits even where the extension is available
  explicit GpuClock(const LogicalDevice& device, bool calibrated = true);
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;

  /// Valid bits of the queue's timestamps; 0 where it has none.
  std::uint32_t valid_bits() const { return valid_bits_; }
  double ns_per_tick() const { return device_.adapter.properties.limits.timestampPeriod; }
  /// The method of read(): "calibrated timestamps" or "a timed submit".
  const char* method() const { return calibrated_ != nullptr ? "calibrated timestamps" : "a timed submit"; }
  /// @throws DeviceError or OutOfMemory where a call fails
  ClockPair read();

 private:
  ClockPair read_calibrated();
  ClockPair read_bracketed();

  const LogicalDevice& device_;
  std::uint32_t valid_bits_ = 0;
  PFN_vkGetCalibratedTimestampsEXT calibrated_ = nullptr;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkQueryPool query_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace etna::vulkan
