#include <etna/device/cpu/memory.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace etna::cpu {
namespace {

class Mmap final : public SegmentSource {
 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      why = fmt::format("the system refused it ({})", std::strerror(errno));
      return false;
    }
#ifdef MADV_HUGEPAGE
    madvise(at, bytes, MADV_HUGEPAGE);  // fewer page faults the first time a large tensor is touched
#endif
    out = {at, static_cast<std::byte*>(at), reinterpret_cast<std::uint64_t>(at), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override { munmap(segment.handle, segment.bytes); }
};

}  // namespace

CachingAllocator& allocator() {
  // Never destroyed: tensors in static objects may be freed after it would be.
  static auto* source = new Mmap;
  static auto* instance = new CachingAllocator(kCPU, *source);
  return *instance;
}

}  // namespace etna::cpu
