#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <etna/device/arguments.h>
#include <etna/device/device.h>
#include <etna/device/memory.h>

/// Work of another API on a device's memory, in order with what is queued on the device: collectives on CUDA's streams,
/// or on the host.
namespace etna::gpu {

/// Who does it.
enum class ForeignPlace : std::uint8_t {
  cuda,  ///< a CUDA stream of the same GPU
  host,  ///< a thread
};
inline constexpr std::size_t kForeignPlaces = 2;

/// Called whenever the device's queue, or a run of a captured step, comes to it. It lives until it is done.
class ForeignWork {
 public:
  virtual ~ForeignWork() = default;
  virtual ForeignPlace place() const = 0;
  /// Whether the host itself reads or writes mapped memory: the device then orders its own accesses to it.
  virtual bool uses_mapped_memory() const { return place() == ForeignPlace::host; }
  /// ForeignPlace::cuda: queues the work. @param stream a CUstream, whose context is current
  /// @param reads, writes where the ranges begin, by CUDA's addresses @throws Error; the device goes on nevertheless
  virtual void queue(void* stream, std::span<const std::uint64_t> reads, std::span<const std::uint64_t> writes);
  /// ForeignPlace::host: what one run does, in steps. It is called, among others, until it returns true or throws, and
  /// does not wait.
  virtual std::function<bool()> begin();
  /// ForeignPlace::host: called whenever a run is queued, by who queues it, so in the same order. It returns what the
  /// run does, as begin() does, which by default it calls with the first step.
  /// @throws Error; the device goes on nevertheless
  virtual std::function<bool()> prepare();
  /// ForeignPlace::host: called in place of the first step where the device was lost before it came to the work.
  virtual void abandon() noexcept {}
  /// Called when somebody has waited for the device. @throws Error if what was queued has failed meanwhile
  virtual void check() {}
};

struct ForeignCall {
  std::string_view op;
  std::shared_ptr<ForeignWork> work;
  std::span<const MemoryRange> reads, writes;
  bool awaited = false;  ///< by a command, soon
};

/// A device's CUDA stream.
class ForeignStream {
 public:
  virtual ~ForeignStream() = default;
  /// Makes its context the thread's.
  virtual void enter() = 0;
  virtual void* handle() const = 0;
  /// How much work was queued there, and how much of it is done. Any thread may ask.
  virtual std::uint64_t queued() const = 0;
  virtual std::uint64_t done() = 0;
  /// The time that finished work took on the device, of most of it.
  virtual double busy_seconds() = 0;
  /// ---- Bytes between GPUs of one computer, moved by copy engines: the compute units go on with what is queued.
  /// @throws DeviceError
  struct Shared {
    StoragePtr storage;         ///< of the device
    int descriptor = -1;        ///< for open(); the caller closes it
    std::size_t bytes = 0;      ///< of the whole, no less than asked for
    std::uint64_t address = 0;  ///< CUDA's
  };
  /// Memory of the device that other processes can open.
  virtual Shared share(std::size_t bytes) = 0;
  /// That of another process, on another GPU. @return CUDA's address
  virtual std::uint64_t open(int descriptor, std::size_t bytes) = 0;
  virtual void close(std::uint64_t at, std::size_t bytes) = 0;
  /// Begins a copy, behind those begun before, and returns its number. One thread calls it.
  virtual std::uint64_t copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) = 0;
  virtual bool copied(std::uint64_t number) = 0;

  /// Names the GPU, and no other.
  virtual std::string gpu() const = 0;
};

/// Memory that the device allocates from now on can be shared with foreign work (CUDA). Call before the first
/// allocation: what is older cannot.
void share_memory();
bool shares_memory();
/// The device's stream; null, and `why`, where there is none: another vendor's GPU, no CUDA driver.
ForeignStream* foreign_stream(Device device, std::string& why);

/// Memory of the host that the device reaches, for ForeignPlace::host.
struct MappedMemory {
  StoragePtr storage;         ///< as the device sees it
  std::byte* host = nullptr;  ///< as the host does; nothing needs to be flushed
};
/// Whether the device takes work of the host, and has such memory.
bool maps_memory(Device device);
/// @throws DeviceError where it does not, OutOfMemory
MappedMemory mapped_memory(Device device, std::size_t bytes);

/// Queues the call behind everything queued so far on the device. Later commands that touch its ranges wait for it,
/// others do not. A step that is being captured takes it as a command. @throws DeviceError where the device cannot
void enqueue_foreign(Device device, const ForeignCall& call);

}  // namespace etna::gpu
