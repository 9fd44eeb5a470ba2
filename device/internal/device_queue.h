#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <etna/device/internal/backend.h>
#include <etna/device/internal/pending.h>

namespace etna {

/// The only way to what queues work on a device, waits for it, or reads what it did: these functions of backends are
/// closed to everybody else. Making one queues the calls that are held back (pending.h), so nobody comes too early.
/// Make one where it is used, and keep none.
class DeviceQueue {
 public:
  explicit DeviceQueue(Device device) : backend_(backend(device)), device_(device) { finish_pending(); }
  /// Those of the first device of each backend, for what backends do with all devices in use.
  static std::vector<DeviceQueue> of_backends();

  /// ---- memory, as it is once the calls held back are done and have released their tensors
  MemoryStats memory_stats() const { return backend_.allocator(device_).stats(); }
  void reset_peak_memory() const { backend_.allocator(device_).reset_peak(); }
  void empty_cache() const { backend_.allocator(device_).empty_cache(); }
  CachingAllocator& allocator() const { return backend_.allocator(device_); }

  /// ---- copies (Backend)
  void upload(const void* source, std::uint64_t address, std::size_t bytes) const {
    backend_.upload(device_, source, address, bytes);
  }
  void download(std::uint64_t address, void* target, std::size_t bytes) const {
    backend_.download(device_, address, target, bytes);
  }
  std::shared_ptr<PendingBytes> download_later(std::uint64_t address, std::size_t bytes) const {
    return backend_.download_later(device_, address, bytes);
  }
  void copy(const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset, std::size_t bytes) const {
    backend_.copy(device_, from, from_offset, to, to_offset, bytes);
  }
  void synchronize() const { backend_.synchronize(device_); }

  /// ---- kernels (gpu::Launcher). @throws DeviceError where the backend runs no GPU kernels of ops
  template <typename AnyDispatch>
  void dispatch(const AnyDispatch& dispatch) const {
    gpu::launcher(device_).dispatch(device_, dispatch);
  }
  void fill(Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) const {
    gpu::launcher(device_).fill(device_, to, offset, bytes, word);
  }
  void update(Storage& to, std::size_t offset, const Arguments& rows) const {
    gpu::launcher(device_).update(device_, to, offset, rows);
  }
  void foreign(const gpu::ForeignCall& call) const { gpu::launcher(device_).foreign(device_, call); }
  /// Zeros where the backend runs no GPU kernels.
  gpu::QueueStats stats() const {
    gpu::Launcher* launcher = backend_.launcher();
    return launcher != nullptr ? launcher->stats(device_) : gpu::QueueStats{};
  }

  /// ---- captured steps
  void run(Executable& executable, std::span<const std::byte> numbers) const { executable.run(numbers); }

  /// ---- profiles, of all devices of the backend
  void begin_profile(const profile::Options& options) const { backend_.begin_profile(options); }
  void finish_profile() const { backend_.finish_profile(); }
  void take_profile(profile::Profile& profile) const { backend_.take_profile(profile); }

 private:
  Backend& backend_;
  Device device_;
};

}  // namespace etna
