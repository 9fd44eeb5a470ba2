#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <etna/device/caching_allocator.h>
#include <etna/device/device.h>
#include <etna/device/kernel.h>

/// What a kind of device is to the rest of the library. The CPU and Vulkan are two; register_backend() adds others
/// (docs/adding-a-backend.md).
namespace etna {

namespace profile {
struct Options;
struct Profile;
}  // namespace profile

/// A few bytes on their way to the host.
class PendingBytes {
 public:
  virtual ~PendingBytes() = default;
  virtual bool ready() = 0;
  /// Waits where they are not there yet. @throws DeviceLost
  virtual const std::byte* get() = 0;
};

namespace gpu {

/// Runs the GPU kernels of ops: dispatches, and what goes with them in the same queue. All in order; barriers are its
/// own affair.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual const Capabilities& capabilities(Device device) = 0;
  virtual void dispatch(Device device, const Dispatch& dispatch) = 0;
  virtual void dispatch(Device device, const CubinDispatch& dispatch) = 0;
  virtual void fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) = 0;
  virtual void update(Device device, Storage& to, std::size_t offset, const Arguments& rows) = 0;
  virtual QueueStats stats(Device device) = 0;
};

class GraphRecorder;
struct GraphOptions;

}  // namespace gpu

class Backend {
 public:
  virtual ~Backend() = default;

  /// As devices are named by: "vulkan" in "vulkan:0".
  virtual const char* name() const = 0;

  /// Its rows of etna::adapters(), best kind first, usable or not.
  virtual const std::vector<AdapterInfo>& adapters() = 0;
  /// Why there are none: "no Vulkan loader (libvulkan.so.1) was found"; and what to do about it: "install libvulkan1".
  virtual std::string why_no_adapters() { return {}; }
  virtual std::string advice() { return {}; }

  /// ---- memory. A device that is not there throws DeviceError.
  virtual CachingAllocator& allocator(Device device) = 0;
  /// `source` may be reused on return.
  virtual void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes) = 0;
  virtual void download(Device device, std::uint64_t address, void* target, std::size_t bytes) = 0;
  /// Between two storages of the device. @param bytes above 0
  virtual void copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                    std::size_t bytes) = 0;
  /// A copy of at most 64 bytes behind everything queued so far, which is not waited for.
  virtual std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes);

  /// ---- queue. Waits until the device is idle. @throws DeviceLost
  virtual void synchronize(Device) {}

  /// ---- kernels. Null: it does not run the GPU kernels of ops; ops then use what register_kernel() was given for it,
  /// or fall back.
  virtual gpu::Launcher* launcher() { return nullptr; }
  /// Null: captured steps run eagerly there. Made for one recording in one thread.
  virtual std::unique_ptr<gpu::GraphRecorder> record_graph(Device device, const gpu::GraphOptions& options);

  /// ---- profiles, in this order; none throws. begin and finish wait until the devices in use are idle.
  virtual void begin_profile(const profile::Options&) {}
  virtual void finish_profile() {}
  /// Adds a GpuProfile for each device in use.
  virtual void take_profile(profile::Profile&) {}
};

/// @throws DeviceError where nothing was registered as that
Backend& backend(DeviceType type);
inline Backend& backend(Device device) { return backend(device.type); }
/// All of them, in the order of DeviceType.
std::span<Backend* const> backends();

/// Adds a kind of device for the rest of the process. @throws DeviceError where the name is taken, or there are too
/// many
DeviceType register_backend(std::unique_ptr<Backend> backend);

}  // namespace etna
