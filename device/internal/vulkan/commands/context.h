#pragma once

#include <mutex>
#include <vector>

#include <etna/device/internal/vulkan/api/logical_device.h>
#include <etna/device/internal/vulkan/commands/command_queue.h>
#include <etna/device/internal/vulkan/commands/index_errors.h>
#include <etna/device/internal/vulkan/commands/readback.h>
#include <etna/device/internal/vulkan/commands/staging.h>
#include <etna/device/internal/vulkan/memory/memory.h>
#include <etna/device/internal/vulkan/pipelines/cubin.h>
#include <etna/device/internal/vulkan/pipelines/pipelines.h>

namespace etna::vulkan {

/// All state of one device in use. Created on first use and never destroyed: storages in static objects may outlive any
/// order we could choose. At exit, the process waits for the GPU and saves the pipeline cache.
struct Context {
  Context(const Adapter& adapter, Device device);

  /// @throws DeviceError where the adapter does not exist or cannot be used.
  static Context& of(Device device);
  /// All contexts created so far.
  static std::vector<Context*> all();

  /// A pipeline, which begins to be built where it is not there. Callers hold the mutex.
  /// @throws DeviceLost, DeviceError
  Pipeline& pipeline(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op);
  /// The same for a dispatch. @throws Error also in strict mode if its arguments are not what the shader declares
  Pipeline& pipeline(const Dispatch& d);

  std::recursive_mutex mutex;
  LogicalDevice logical;
  Pipelines pipelines;
  IndexErrors index_errors;
  CommandQueue queue;
  BufferSegments segments;
  CachingAllocator allocator;
  Cubins cubins;
  Staging staging;
  Readback readback;
};

/// Adds a device that was just created to the profile being taken, if any.
void join_profile(Context& context);

}  // namespace etna::vulkan
