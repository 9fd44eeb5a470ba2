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

/// A large run of memory from the system, cut into blocks by CachingAllocator.
struct Segment {
  void* handle = nullptr;     ///< the source's own (Vulkan: buffer and memory)
  std::byte* host = nullptr;  ///< where the host can touch it, else null
  std::uint64_t address = 0;  ///< what kernels see
  std::size_t bytes = 0;
};

/// Where segments come from: mmap on the CPU, vkAllocateMemory on a GPU.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// @returns false where the system has no more; `why` then names the limit ("heap 0 has 2.0 GiB").
  virtual bool allocate(std::size_t bytes, Segment& out, std::string& why) = 0;
  /// Called before segments are released and before a retry: work that may still touch them must finish.
  virtual void synchronize() = 0;
  virtual void release(const Segment& segment) = 0;
};

/// Best fit within large segments, splitting and merging neighbours; sizes are rounded to 256 bytes (small) or to an
/// eighth of their power of two (large), so that a training step's sizes repeat and the second step hits the cache.
/// Small (≤ 1 MiB) and large requests use separate segments, so that small ones do not pin large holes.
class CachingAllocator {
 public:
  struct Block;

  CachingAllocator(Device device, SegmentSource& source) : device_(device), source_(source) {}
  ~CachingAllocator();

  StoragePtr allocate(std::size_t bytes);
  void free(Block* block);
  void empty_cache();
  MemoryStats stats() const;
  void reset_peak();

  static std::size_t rounded(std::size_t bytes);

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const;
  };
  using Pool = std::set<Block*, Smaller>;

  Block* take(std::size_t bytes);
  bool grow(std::size_t bytes, std::string& why);
  void release_free_segments();

  mutable std::mutex mutex_;
  Device device_;
  SegmentSource& source_;
  Pool small_, large_;
  MemoryStats stats_;
};

}  // namespace etna
