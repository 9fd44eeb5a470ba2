#include <etna/device/cpu/memory.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include <etna/device/cpu/processor.h>
#include <etna/device/platform.h>

namespace etna::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Large segments begin at a huge-page boundary, so that huge pages can cover them entirely: one page fault per 2 MiB
/// instead of per 4 KiB when a tensor is first touched, and fewer TLB misses after that.
class Mmap final : public SegmentSource {
 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
    void* mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      why = fmt::format("the system refused it ({})", std::strerror(errno));
      return false;
    }
    auto* at = static_cast<std::byte*>(mapped);
    if (slack > 0) {
      const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
      if (before > 0) munmap(at, before);
      at += before;
      // Sizes this large are multiples of 128 KiB, so the end is a page boundary.
      if (slack > before) munmap(at + bytes, slack - before);
#ifdef MADV_HUGEPAGE
      madvise(at, bytes, MADV_HUGEPAGE);
#endif
    }
    out = {at, at, reinterpret_cast<std::uint64_t>(at), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override { munmap(segment.handle, segment.bytes); }
  std::uint64_t available() const override { return available_bytes(); }
};

/// Where memory cannot be taken and returned by pages.
class Heap final : public SegmentSource {
 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    auto* at = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (at == nullptr) {
      why = "the heap cannot grow further";
      return false;
    }
    out = {at, at, reinterpret_cast<std::uintptr_t>(at), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override { std::free(segment.handle); }
  std::uint64_t available() const override { return available_bytes(); }
};

}  // namespace

CachingAllocator& allocator() {
  // Never destroyed: destructors of static objects may still free tensors.
  static auto* source = new std::conditional_t<kHasPages, Mmap, Heap>;
  static auto* instance = new CachingAllocator(kCPU, *source);
  return *instance;
}

}  // namespace etna::cpu
