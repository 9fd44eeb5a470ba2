#include <etna/device/memory.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/caching_allocator.h>
#include <etna/device/internal/command_sink.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/leak_notes.h>

namespace etna {
namespace {
CachingAllocator& allocator(Device device) { return backend(device).allocator(device); }

/// How a thread allocates.
struct Allocating {
  AllocationHook* hook = nullptr;
  MemoryUse use = MemoryUse::activations;
};
constinit thread_local Allocating allocating;

/// Throws while a step is captured: the copy would happen once, now, and never in a replay.
void forbid_in_a_capture(const char* what) {
  if (const gpu::CommandSink* sink = gpu::CommandSink::current()) {
    throw CaptureError(fmt::format("{}: bytes cross between host and device while a step is captured on {}", what,
                                   sink->device().str()));
  }
}

}  // namespace

const char* name(MemoryUse use) {
  constexpr const char* kNames[kMemoryUses] = {"activations", "weights",        "gradients",
                                               "optimizer",   "captured steps", "data"};
  return kNames[static_cast<std::size_t>(use)];
}

std::string readable_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string str(const BytesByUse& bytes) {
  std::vector<std::pair<std::uint64_t, const char*>> uses;
  for (std::size_t i = 0; i < kMemoryUses; ++i) {
    if (bytes[i] > 0) uses.emplace_back(bytes[i], name(static_cast<MemoryUse>(i)));
  }
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [amount, use] : uses)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", readable_bytes(amount), use);
  return text;
}

std::string MemoryStats::str() const {
  return fmt::format("{} in use{}{}", readable_bytes(in_use), in_use > 0 ? ": " : "", etna::str(by_use));
}

Storage::~Storage() {
  if (leak_notes::watching()) leak_notes::gone(*this);
  if (block_ != nullptr) allocator(device_).free(static_cast<CachingAllocator::Block*>(block_));
}

std::byte* Storage::host() const {
  finish_pending_on_host();
  if (has_no_memory_yet_.load(std::memory_order_acquire)) take_memory();
  return host_;
}

void Storage::take_memory() const {
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (!has_no_memory_yet_) return;
  const StoragePtr taken = allocator(device_).allocate(bytes_, use_);
  host_ = taken->host_;
  address_ = taken->address_;
  block_ = std::exchange(taken->block_, nullptr);
  has_no_memory_yet_.store(false, std::memory_order_release);
  if (leak_notes::watching()) leak_notes::took_memory(*this);
}

void Storage::rebind(std::shared_ptr<Storage> whole, std::size_t offset) {
  if (leak_notes::watching()) leak_notes::gone(*this);
  if (block_ != nullptr) allocator(device_).free(static_cast<CachingAllocator::Block*>(block_));
  block_ = nullptr;
  has_no_memory_yet_ = false;
  address_ = whole->address() + offset;
  host_ = whole->host_ != nullptr ? whole->host_ + offset : nullptr;
  whole_ = std::move(whole);
}

void Storage::set_use(MemoryUse to) {
  use_ = to;
  if (leak_notes::watching()) leak_notes::changed_use(*this, to);
  if (block_ != nullptr) allocator(device_).set_use(static_cast<CachingAllocator::Block*>(block_), to);
}

MemoryScope::MemoryScope(MemoryUse to) : before_(std::exchange(allocating.use, to)) {}
MemoryScope::~MemoryScope() { allocating.use = before_; }

AllocationHook* set_allocation_hook(AllocationHook* to) { return std::exchange(allocating.hook, to); }

StoragePtr allocate(Device device, std::size_t bytes) {
  if (allocating.hook != nullptr) {
    if (StoragePtr made = allocating.hook->allocate(device, bytes)) return made;
  }
  StoragePtr made = allocator(device).allocate(bytes, allocating.use);
  if (leak_notes::watching()) leak_notes::made(*made, allocating.use, true);
  return made;
}

StoragePtr allocate_when_used(Device device, std::size_t bytes) {
  if (allocating.hook != nullptr || allocating.use != MemoryUse::activations) return allocate(device, bytes);
  auto storage = std::make_shared<Storage>(device, bytes, nullptr, 0, nullptr);
  storage->has_no_memory_yet_ = true;
  if (leak_notes::watching()) leak_notes::made(*storage, allocating.use, false);
  return storage;
}

MemoryStats memory_stats(Device device) { return DeviceQueue(device).memory_stats(); }
void reset_peak_memory(Device device) { DeviceQueue(device).reset_peak_memory(); }
std::uint64_t available_memory(Device device) { return allocator(device).available(); }
void empty_cache(Device device) { DeviceQueue(device).empty_cache(); }

void upload(const void* source, Storage& to, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  if (to.device().is_cpu()) {
    std::memcpy(to.host() + offset, source, bytes);
    return;
  }
  const DeviceQueue queue(to.device());
  forbid_in_a_capture("upload");
  detail::count_h2d(bytes);
  queue.upload(source, to.address() + offset, bytes);
}

void download(const Storage& from, std::size_t offset, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  if (from.device().is_cpu()) {
    std::memcpy(target, from.host() + offset, bytes);
    return;
  }
  const DeviceQueue queue(from.device());
  forbid_in_a_capture("download");
  detail::count_d2h(bytes);
  queue.download(from.address() + offset, target, bytes);
}

}  // namespace etna
