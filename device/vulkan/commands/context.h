#pragma once

#include <mutex>
#include <vector>

#include <etna/device/vulkan/api/logical_device.h>
#include <etna/device/vulkan/commands/readback.h>
#include <etna/device/vulkan/commands/recorder.h>
#include <etna/device/vulkan/commands/staging.h>
#include <etna/device/vulkan/memory/memory.h>
#include <etna/device/vulkan/pipelines/cubin.h>
#include <etna/device/vulkan/pipelines/pipelines.h>

namespace etna::vulkan {

/// All that belongs to one device in use. Made on first use and never destroyed: storages in static objects may outlive
/// any order we could choose. At exit the GPU is waited for and the pipeline cache saved.
struct Context {
  Context(const Adapter& adapter, Device device);

  /// @throws DeviceError where there is no such adapter or it cannot be used.
  static Context& of(Device device);
  /// Those made so far.
  static std::vector<Context*> all();

  std::recursive_mutex mutex;
  LogicalDevice logical;
  Recorder recorder;
  BufferSegments segments;
  CachingAllocator allocator;
  Pipelines pipelines;
  Cubins cubins;
  Staging staging;
  Readback readback;
};

/// Lets a device that was just made into the profile being taken, if any.
void join_profile(Context& context);

}  // namespace etna::vulkan
