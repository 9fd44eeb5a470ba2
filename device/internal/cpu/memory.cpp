#include <etna/device/internal/cpu/memory.h>

#include <cstdint>
#include <new>
#include <type_traits>

#include <fmt/format.h>

#include <etna/device/internal/cpu/processor.h>
#include <etna/device/internal/os/memory.h>
#include <etna/device/internal/platform.h>

namespace etna::cpu {
namespace {

class Pages final : public SegmentSource {
 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    std::error_code error;
    std::byte* at = os::take_pages(bytes, error);
    if (error) {
      why = fmt::format("the system refused it ({})", error.message());
      return false;
    }
    out = {at, at, reinterpret_cast<std::uint64_t>(at), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override {
    os::return_pages(static_cast<std::byte*>(segment.handle), segment.bytes);
  }
  std::uint64_t available() const override { return available_bytes(); }
};

/// For systems where memory cannot be mapped and returned by pages.
class Heap final : public SegmentSource {
  static constexpr std::align_val_t kAlignment{64};

 public:
  bool allocate(std::size_t bytes, Segment& out, std::string& why) override {
    auto* at = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
    if (at == nullptr) {
      why = "the heap cannot grow further";
      return false;
    }
    out = {at, at, reinterpret_cast<std::uintptr_t>(at), bytes};
    return true;
  }
  void synchronize() override {}
  void release(const Segment& segment) override { ::operator delete(segment.handle, kAlignment); }
  std::uint64_t available() const override { return available_bytes(); }
};

}  // namespace

CachingAllocator& allocator() {
  // Never destroyed: destructors of static objects may still free tensors.
  static auto* source = new std::conditional_t<kHasPages, Pages, Heap>;
  static auto* instance = new CachingAllocator(kCPU, *source);
  return *instance;
}

}  // namespace etna::cpu
