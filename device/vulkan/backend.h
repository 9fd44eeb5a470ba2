#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <etna/device/caching_allocator.h>
#include <etna/device/device.h>
#include <etna/device/profile/profiler.h>

/// What the rest of device/ asks of the Vulkan backend. Free of Vulkan's own headers. Every function that takes a
/// Device throws DeviceError where that adapter does not exist or cannot be used; the logical device is made on first
/// use.
namespace etna::vulkan {

/// Vulkan's rows of etna::adapters(), best kind first, usable or not. Empty where there is no loader or no driver.
const std::vector<AdapterInfo>& adapters();

/// Why adapters() is empty: "no Vulkan loader (libvulkan.so.1) was found"; empty where it is not.
const std::string& why_no_adapters();

/// The device's allocator. Its segments are device-local; blocks come back at once on free(), since the recorder orders
/// whatever uses the same bytes next.
CachingAllocator& allocator(Device device);

/// Stages the bytes and queues the copy; `source` may be reused on return. Any size and alignment.
void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes);

/// Submits what is queued, copies, waits.
void download(Device device, std::uint64_t address, void* target, std::size_t bytes);

/// A few bytes on their way to the host.
class PendingBytes {
 public:
  virtual ~PendingBytes() = default;
  virtual bool ready() = 0;
  /// Waits where they are not there yet. @throws DeviceLost
  virtual const std::byte* get() = 0;
};

/// Queues a copy of at most 64 bytes, behind everything queued so far, and waits for nothing.
std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes);

/// Submits what is queued and waits until the device is idle. @throws DeviceLost
void synchronize(Device device);

/// The profiler's calls, in this order; none throws. begin and finish wait until the devices in use are idle.
void begin_profile(const profile::Options& options);
void finish_profile();
/// Adds a GpuProfile for each device in use, times and all.
void take_profile(profile::Profile& profile);

}  // namespace etna::vulkan
