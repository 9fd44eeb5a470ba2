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
class CachingAllocator {
 public:
  struct Block;

  CachingAllocator(Device device, SegmentSource& source) : device_(device), source_(source) {}
  ~CachingAllocator();

  StoragePtr allocate(std::size_t bytes, MemoryUse use);
  void free(Block* block);
  void set_use(Block* block, MemoryUse use);
  void empty_cache();
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
  bool grow(std::size_t bytes, std::string& why);
  std::uint64_t& used(const Block& block);
  void release_free_segments();

  mutable std::mutex mutex_;
  Device device_;
  SegmentSource& source_;
  Pool small_, large_;
  MemoryStats stats_;
};

}  // namespace etna
