#include <etna/device/memory.h>

#include <cstring>

#include <etna/device/caching_allocator.h>
#include <etna/device/cpu/memory.h>
#include <etna/device/profiler.h>
#include <etna/device/transfers.h>
#include <etna/device/vulkan/backend.h>

namespace etna {
namespace {
CachingAllocator& allocator(Device device) { return device.is_cpu() ? cpu::allocator() : vulkan::allocator(device); }
}  // namespace

Storage::~Storage() { allocator(device_).free(static_cast<CachingAllocator::Block*>(block_)); }

StoragePtr allocate(Device device, std::size_t bytes) { return allocator(device).allocate(bytes); }
MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
void reset_peak_memory(Device device) { allocator(device).reset_peak(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }

void upload(const void* source, Storage& to, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  if (to.device().is_cpu()) {
    std::memcpy(to.host() + offset, source, bytes);
    return;
  }
  profile::Scope scope("upload", profile::Category::transfer, bytes);
  detail::count_h2d(bytes);
  vulkan::upload(to.device(), source, to.address() + offset, bytes);
}

void download(const Storage& from, std::size_t offset, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (from.device().is_cpu()) {
    std::memcpy(target, from.host() + offset, bytes);
    return;
  }
  profile::Scope scope("download", profile::Category::transfer, bytes);
  detail::count_d2h(bytes);
  vulkan::download(from.device(), from.address() + offset, target, bytes);
}

void synchronize(Device device) {
  if (device.is_vulkan()) vulkan::synchronize(device);
}

}  // namespace etna
