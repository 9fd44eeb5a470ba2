#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include <etna/device/memory.h>

namespace etna {

/// A large range of memory from the system, divided into blocks by CachingAllocator.
struct Segment {
  void* handle = nullptr;     ///< owned by the source (Vulkan: buffer and memory)
  std::byte* host = nullptr;  ///< null where the host cannot access it
  std::uint64_t address = 0;  ///< the address that kernels get
  std::size_t bytes = 0;
};

/// Where segments come from: mmap on the CPU, vkAllocateMemory on a GPU.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// @returns false where the system has no more memory; `why` then names the limit ("heap 0 has 2.0 GiB").
  virtual bool allocate(std::size_t bytes, Segment& out, std::string& why) = 0;
  /// Called before segments are released and before a retry. Waits for all work that may still touch them.
  virtual void synchronize() = 0;
  virtual void release(const Segment& segment) = 0;
  /// What it can still give, as far as it knows.
  virtual std::uint64_t available() const { return ~std::uint64_t{0}; }
};

/// Best fit within large segments; splits blocks and merges free neighbours. Sizes are rounded to 256 bytes (small) or
/// to an eighth of their power of two (large), so the sizes of a training step repeat and the second step hits the
/// cache. Small (≤ 1 MiB) and large requests use separate segments, so that small blocks do not fragment large ones.
/// What reserve() took is large segments that stay; segments for small requests are cut from them.
class CachingAllocator {
 public:
  struct Block;

  CachingAllocator(Device device, SegmentSource& source);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  StoragePtr allocate(std::size_t bytes, MemoryUse use);
  void free(Block* block);
  void set_use(Block* block, MemoryUse use);
  /// Counts memory of the device that another API allocates: it is in use, and within the limit. What is cached makes
  /// room. @throws OutOfMemory where that is not enough
  void add_outside(std::uint64_t bytes, MemoryUse use);
  void remove_outside(std::uint64_t bytes, MemoryUse use);
  /// @return bytes given back
  std::uint64_t empty_cache();
  /// memory_control.h has these.
  void set_cache_limit(std::uint64_t bytes);
  std::uint64_t cache_limit();
  void reserve(std::uint64_t bytes);
  std::uint64_t reserved() const;
  /// Of all allocators.
  static std::uint64_t trim_when_idle(double seconds);
  /// At exit: drivers may be gone when static objects free their tensors, so nothing goes back for a limit any more.
  static void forget_cache_limits();
  MemoryStats stats() const;
  void reset_peak();
  std::uint64_t available() const;

  static std::size_t rounded(std::size_t bytes);

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Pool = std::set<Block*, Smaller>;

  Block* take(std::size_t bytes);
  /// Makes the block, which is in no pool any more, of this size; what is beyond becomes a free block.
  void cut(Block* block, std::size_t bytes);
  bool grow(std::size_t bytes, std::string& why);
  /// A segment for small requests, cut from what is reserved.
  bool grow_from_reserve();
  bool allocate_segment(std::size_t bytes, Segment& out, std::string& why);
  std::uint64_t& used(const Block& block);
  /// Merges a block that is no longer used with its free neighbours. @return what it became, in its pool
  Block* merge(Block* block);
  void release(Block* whole);
  std::uint64_t release_free_segments();
  std::uint64_t release_reserve();
  void enforce_cache_limit();
  void reserve_locked(std::uint64_t bytes);
  void read_settings();
  void note_peak();

  mutable std::mutex mutex_;
  Device device_;
  SegmentSource& source_;
  Pool small_, large_;
  std::map<std::uint64_t, Block*> unused_;  ///< segments without a used block but for reserved ones, by when they were
  std::uint64_t frees_ = 0;
  MemoryStats stats_;
  bool has_settings_ = false;
  std::uint64_t cache_limit_ = ~std::uint64_t{0};
  std::uint64_t reserved_ = 0, reserved_free_ = 0;
  /// ---- what trim_when_idle() saw
  std::uint64_t seen_calls_ = 0;
  double seen_at_ = -1;  ///< os::steady_seconds(); -1: not yet
};

}  // namespace etna
