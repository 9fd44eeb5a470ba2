#include <etna/device/internal/host_import.h>
#include <etna/device/memory.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>
#include <etna/device/internal/caching_allocator.h>
#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/pending.h>
#include <etna/device/profile/profiler.h>

namespace etna {
namespace {
CachingAllocator& allocator(Device device) { return backend(device).allocator(device); }
thread_local AllocationHook* hook = nullptr;
thread_local MemoryUse use = MemoryUse::activations;

/// Throws while commands are recorded: the copy would happen once, now, and never in a replay.
void forbid_while_recording(const char* what) {
  if (const Graph* graph = Graph::current()) {
    throw CaptureError(fmt::format("{}: bytes cross between host and device while a step is captured on {}", what,
                                   graph->device().str()));
  }
}

}  // namespace

Storage::~Storage() {
  if (block_ != nullptr) allocator(device_).free(static_cast<CachingAllocator::Block*>(block_));
}

void Storage::rebind(std::shared_ptr<Storage> whole, std::size_t offset) {
  if (block_ != nullptr) allocator(device_).free(static_cast<CachingAllocator::Block*>(block_));
  block_ = nullptr;
  host_ = whole->host() != nullptr ? whole->host() + offset : nullptr;
  address_ = whole->address() + offset;
  whole_ = std::move(whole);
}

void Storage::set_use(MemoryUse to) {
  use_ = to;
  if (block_ != nullptr) allocator(device_).set_use(static_cast<CachingAllocator::Block*>(block_), to);
}

MemoryScope::MemoryScope(MemoryUse to) : before_(std::exchange(use, to)) {}
MemoryScope::~MemoryScope() { use = before_; }

AllocationHook* set_allocation_hook(AllocationHook* to) { return std::exchange(hook, to); }

StoragePtr allocate(Device device, std::size_t bytes) {
  if (hook != nullptr) {
    if (StoragePtr made = hook->allocate(device, bytes)) return made;
  }
  return allocator(device).allocate(bytes, use);
}

StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return backend(device).import_host(device, bytes, std::move(owner));
}

bool is_imported(const Storage& storage) { return backend(storage.device()).is_imported(storage); }

MemoryStats memory_stats(Device device) {
  finish_pending();
  return allocator(device).stats();
}
void reset_peak_memory(Device device) {
  finish_pending();
  allocator(device).reset_peak();
}
std::uint64_t available_memory(Device device) { return allocator(device).available(); }
void empty_cache(Device device) {
  finish_pending();
  allocator(device).empty_cache();
}

void upload(const void* source, Storage& to, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  if (to.device().is_cpu()) {
    std::memcpy(to.host() + offset, source, bytes);
    return;
  }
  finish_pending();
  forbid_while_recording("upload");
  profile::Scope scope("upload", profile::Category::transfer, bytes);
  detail::count_h2d(bytes);
  backend(to.device()).upload(to.device(), source, to.address() + offset, bytes);
}

void download(const Storage& from, std::size_t offset, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (from.device().is_cpu()) {
    std::memcpy(target, from.host() + offset, bytes);
    return;
  }
  finish_pending();
  forbid_while_recording("download");
  profile::Scope scope("download", profile::Category::transfer, bytes);
  detail::count_d2h(bytes);
  backend(from.device()).download(from.device(), from.address() + offset, target, bytes);
}

void synchronize(Device device) {
  finish_pending();
  if (!device.is_cpu()) backend(device).synchronize(device);
}

}  // namespace etna
