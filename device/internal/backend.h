#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/internal/caching_allocator.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>

/// The interface of a kind of device. The CPU and Vulkan implement it; register_backend() adds others
/// (docs/adding-a-backend.md).
namespace etna {

namespace profile {
struct Options;
struct Profile;
}  // namespace profile

class DeviceQueue;
class Graph;

namespace gpu {
struct ForeignCall;
class ForeignStream;
struct MappedMemory;
}  // namespace gpu

inline constexpr std::size_t kMostBytesLater = 4096;  ///< of one PendingBytes

/// A few bytes in flight to the host.
class PendingBytes {
 public:
  virtual ~PendingBytes() = default;
  virtual bool ready() = 0;
  /// Waits until the bytes have arrived. @throws DeviceLost, IndexError
  virtual const std::byte* get() = 0;
};

namespace gpu {

/// What a kernel writes where Launcher::index_errors() says (shaders/lib/index.glsl).
struct IndexReport {
  std::uint32_t position = 0;       ///< plus one; 0: no report
  std::uint32_t low = 0, high = 0;  ///< the index
  std::uint32_t limit = 0;
  /// The sentence of an IndexError.
  std::string message(std::string_view op, Device device) const;
};

/// Queues the GPU kernels of ops, and copies and fills, in order. It inserts the barriers itself.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual const Capabilities& capabilities(Device device) = 0;
  /// Where kernels of this op report wrong indices: 16 bytes that stay valid, without a range. The backend reads them
  /// whenever it has waited for the device.
  virtual Pointer index_errors(Device, std::string_view) { return {}; }

  /// foreign_work.h
  virtual ForeignStream* foreign_stream(Device, std::string& why);
  virtual bool maps_memory(Device) { return false; }
  virtual MappedMemory mapped_memory(Device device, std::size_t bytes);

  /// A graph takes this launch: checks it, and begins to build what it needs, so that compile() need not wait.
  /// @throws as dispatch() would
  virtual void prepare(Device, const Dispatch&) {}
  virtual void prepare(Device, const CubinDispatch&) {}

 protected:
  /// For callers only by way of a DeviceQueue.
  friend class etna::DeviceQueue;
  virtual void dispatch(Device device, const Dispatch& dispatch) = 0;
  virtual void dispatch(Device device, const CubinDispatch& dispatch) = 0;
  virtual void fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) = 0;
  virtual void update(Device device, Storage& to, std::size_t offset, const Arguments& rows) = 0;
  virtual QueueStats stats(Device device) = 0;
  virtual void foreign(Device device, const ForeignCall& call);
};

}  // namespace gpu

/// A graph as its backend runs it. Made by Backend::compile(), run by DeviceQueue::run().
class Executable {
 public:
  virtual ~Executable() = default;

 protected:
  friend class DeviceQueue;
  /// Writes `numbers` to the graph's block of them, then queues one run after everything queued on the device.
  /// @throws DeviceLost, OutOfMemory (of the driver)
  virtual void run(std::span<const std::byte> numbers) = 0;
};

/// How a step is captured on a backend's devices (graph/graph.h).
enum class GraphForm : std::uint8_t {
  none,      ///< not at all: captured steps run eagerly
  calls,     ///< the CPU's: ops run while they are captured, and a run calls the same kernels again
  commands,  ///< dispatches, copies and fills are gathered, and nothing runs before the graph is compiled
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// The name in device strings: "vulkan" in "vulkan:0".
  virtual const char* name() const = 0;

  /// This backend's rows of etna::adapters(), best kind first, usable or not.
  virtual const std::vector<AdapterInfo>& adapters() = 0;
  /// Why adapters() is empty ("no Vulkan loader (libvulkan.so.1) was found"), and what to do about it ("install
  /// libvulkan1").
  virtual std::string why_no_adapters() { return {}; }
  virtual std::string advice() { return {}; }

  /// ---- memory. A missing device throws DeviceError.
  virtual CachingAllocator& allocator(Device device) = 0;
  /// etna::import_host(). Null: the device reads no memory of the host.
  virtual StoragePtr import_host(Device, std::span<const std::byte>, std::shared_ptr<const void>) { return nullptr; }
  virtual bool is_imported(const Storage&) { return false; }

  /// ---- kernels. Null: the backend cannot run the GPU kernels of ops. Ops then use what register_kernel() was given,
  /// or fall back.
  virtual gpu::Launcher* launcher() { return nullptr; }
  /// Whether its storages have host pointers, and ops compute on them by the kernels of the CPU.
  virtual bool computes_by_cpu_kernels() const { return false; }

  /// ---- captured steps
  virtual GraphForm graph_form() const { return GraphForm::none; }
  /// Plans a graph of this backend and makes it executable. The graph must outlive the result.
  /// @throws OutOfMemory, CaptureError
  virtual std::unique_ptr<Executable> compile(Graph& graph);

 protected:
  /// ---- queue, for callers only by way of a DeviceQueue.
  friend class DeviceQueue;
  /// `source` may be reused on return.
  virtual void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes) = 0;
  virtual void download(Device device, std::uint64_t address, void* target, std::size_t bytes) = 0;
  /// Between two storages of the device. @param bytes greater than 0
  virtual void copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                    std::size_t bytes) = 0;
  /// Queues a copy of at most kMostBytesLater after everything queued so far, and does not wait for it.
  virtual std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes);
  /// Waits until the device is idle. @throws DeviceLost, IndexError
  virtual void synchronize(Device) {}

  /// ---- profiles, called in this order; none throws. begin and finish wait until the devices in use are idle.
  virtual void begin_profile(const profile::Options&) {}
  virtual void finish_profile() {}
  /// Adds a GpuProfile for each device in use.
  virtual void take_profile(profile::Profile&) {}
};

/// @throws DeviceError where no backend is registered for that type
Backend& backend(DeviceType type);
inline Backend& backend(Device device) { return backend(device.type); }
/// All backends, in the order of DeviceType.
std::span<Backend* const> backends();

/// Those that this build has, in the order of DeviceType (built_in/backends.cpp).
std::vector<std::unique_ptr<Backend>> built_in_backends();

namespace gpu {
/// @throws DeviceError where the backend runs no GPU kernels of ops
Launcher& launcher(Device device);
}  // namespace gpu

/// Adds a kind of device for the rest of the process. @throws DeviceError where the name is taken, or there are too
/// many
DeviceType register_backend(std::unique_ptr<Backend> backend);

}  // namespace etna
