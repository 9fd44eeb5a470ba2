#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <etna/device/device.h>

namespace etna {

/// What bytes in use are for. Activations and temporary results are what nobody claims.
enum class MemoryUse : std::uint8_t { activations, weights, gradients, optimizer, captured_steps, data };
inline constexpr std::size_t kMemoryUses = 6;
/// "captured steps"
const char* name(MemoryUse use);

/// "768 B", "48.0 MiB", "1.5 GiB"
std::string readable_bytes(std::uint64_t bytes);

/// Bytes by MemoryUse.
using BytesByUse = std::array<std::uint64_t, kMemoryUses>;
/// "80.0 MiB weights, 40.0 MiB activations", the most first; empty where all are 0.
std::string str(const BytesByUse& bytes);

/// What a device's caching allocator holds. Bytes, except for the two counts.
struct MemoryStats {
  std::uint64_t in_use = 0;  ///< bytes in live storages, as rounded by the allocator
  std::uint64_t cached = 0;  ///< bytes held from the system and not in use
  std::uint64_t peak = 0;    ///< largest in_use since the start or reset_peak_memory()
  std::uint64_t hits = 0;    ///< allocations served from the cache
  std::uint64_t misses = 0;  ///< allocations that went to the system
  BytesByUse by_use{};       ///< in_use, divided
  BytesByUse at_peak{};      ///< by_use when it was the largest
  std::uint64_t reserved() const { return in_use + cached; }
  /// "120.0 MiB in use: 80.0 MiB weights, 40.0 MiB activations", the most first.
  std::string str() const;
};

MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
/// What allocations can still get: the cache, and what the system or the driver has left, at most up to
/// $ETNA_MEMORY_LIMIT. Other programs may take some of it.
std::uint64_t available_memory(Device device);

/// Gives cached memory back to the system.
void empty_cache(Device device);

/// While one lives, what this thread allocates is for `use`.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryUse before_;
};

/// A range of bytes on one device. shared_ptr owns it; the last owner returns it to the device's cache. Freed bytes are
/// reused in stream order: work already queued on them finishes first.
class Storage {
 public:
  /// @param block the allocator's handle; null for a storage that gets its bytes by rebind()
  Storage(Device device, std::size_t bytes, std::byte* host, std::uint64_t address, void* block)
      : device_(device), bytes_(bytes), host_(host), address_(address), block_(block) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const { return device_; }
  std::size_t bytes() const { return bytes_; }
  /// Host pointer on the CPU, null on a GPU. First runs what this thread holds back on the CPU.
  std::byte* host() const;
  /// Buffer device address on a GPU (what kernels get), the host pointer's value on the CPU.
  std::uint64_t address() const {
    if (has_no_memory_yet_.load(std::memory_order_acquire)) take_memory();
    return address_;
  }

  /// Makes this storage refer to bytes of another storage, which it keeps alive. Its content is lost, and its block is
  /// freed.
  void rebind(std::shared_ptr<Storage> whole, std::size_t offset);
  /// Counts the bytes as used for this from now on. Those that a captured step shares among its storages stay its own.
  void set_use(MemoryUse use);
  MemoryUse use() const { return use_; }
  /// Counts a write in place. @param writer its name, for messages
  void count_write(const char* writer) { ++version, last_writer_ = writer; }
  void set_last_writer(const char* writer) { last_writer_ = writer; }
  const char* last_writer() const { return last_writer_; }
  /// False for a storage of a failed capture: it has an address, but no memory.
  bool has_bytes() const { return has_no_memory_yet_ || block_ != nullptr || whole_ != nullptr; }

  /// Counts in-place writes. Autograd compares it to detect that a saved tensor was modified.
  std::uint32_t version = 0;
  /// A host pointer for writing was handed out, so that the content may change without being counted.
  bool exposed = false;

 private:
  friend std::shared_ptr<Storage> allocate_when_used(Device device, std::size_t bytes);
  void take_memory() const;

  Device device_;
  MemoryUse use_ = MemoryUse::activations;
  mutable std::atomic<bool> has_no_memory_yet_ = false;
  std::size_t bytes_;
  mutable std::byte* host_;
  mutable std::uint64_t address_;
  mutable void* block_;
  std::shared_ptr<Storage> whole_;  ///< the storage that holds the bytes, if they are not in block_
  const char* last_writer_ = nullptr;
};

using StoragePtr = std::shared_ptr<Storage>;

/// At least `bytes` bytes, aligned to 256, with undefined content.
/// @throws OutOfMemory with the size asked, what is in use and the limit that was hit.
StoragePtr allocate(Device device, std::size_t bytes);
/// The same, but takes memory when a pointer or an address is first asked for, which then throws OutOfMemory.
StoragePtr allocate_when_used(Device device, std::size_t bytes);

/// Intercepts allocations of one thread before they reach the caching allocators. A captured step uses it to get
/// storages whose memory is planned later.
class AllocationHook {
 public:
  virtual ~AllocationHook() = default;
  /// @returns null to leave the request to the allocator
  virtual StoragePtr allocate(Device device, std::size_t bytes) = 0;
};
/// Sets this thread's hook; null removes it. @returns the previous one
AllocationHook* set_allocation_hook(AllocationHook* hook);

/// Copies between host memory and a storage, counted in transfers(). On a GPU, upload() stages the bytes before it
/// returns and queues the copy; download() submits and waits. Offsets and sizes are in bytes; the caller has checked
/// the bounds.
void upload(const void* source, Storage& to, std::size_t offset, std::size_t bytes);
void download(const Storage& from, std::size_t offset, void* target, std::size_t bytes);

/// Copies between host and devices since the start or reset_transfers(), summed over devices.
struct Transfers {
  std::uint64_t h2d_bytes = 0, h2d_calls = 0;
  std::uint64_t d2h_bytes = 0, d2h_calls = 0;
  std::uint64_t moved_tensors = 0;  ///< host tensors an op moved to a GPU because another input was there
  std::uint64_t fallbacks = 0;      ///< ops that ran composed, or on the CPU, because they had no kernel
};

Transfers transfers();
void reset_transfers();

namespace detail {
void count_h2d(std::uint64_t bytes);
void count_d2h(std::uint64_t bytes);
/// Counts the event and warns once per message. In strict mode throws DeviceError instead.
void count_moved_tensor(std::string_view op, std::string_view what);
void count_fallback(std::string_view op, std::string_view why);
}  // namespace detail

}  // namespace etna
