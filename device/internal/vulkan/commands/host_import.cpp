#include <etna/device/internal/vulkan/commands/host_import.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/commands/context.h>

namespace etna::vulkan {
namespace {

/// Smaller ones are not worth a buffer each: adapters allow some thousands of them.
constexpr std::size_t kLeastBytes = 64 * 1024;
/// Of memory that is read in vectors.
constexpr std::uintptr_t kAlignment = 16;
/// Owners vouch for whole pages of this size.
constexpr std::uint64_t kPage = 4096;

bool copies_anyway() {
  const char* value = std::getenv("ETNA_COPY_WEIGHTS");
  return value != nullptr && std::string_view(value) == "1";
}

/// Ends the use of imported memory: what is queued may still read it.
void release(Device device, std::uint64_t address) noexcept {
  try {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    try {
      if (context.logical.lost.empty()) context.queue.finish();
    } catch (...) {
      // Lost while it was waited for, or what was queued could not be submitted; what had been may still run.
      context.logical.vk.vkDeviceWaitIdle(context.logical.handle);
    }
    context.segments.release({.address = address});
  } catch (...) {
    // There is no such device any more.
  }
}

/// Which ends the buffer with itself.
StoragePtr storage_of(Device device, const Buffer& buffer, std::shared_ptr<const void> owner) {
  return {new Storage(device, buffer.bytes, nullptr, buffer.address, nullptr),
          [device, address = buffer.address, kept = std::move(owner)](Storage* own) mutable {
            release(device, address);
            delete own;
            kept = nullptr;  // the deleter itself lives as long as somebody refers weakly to the storage
          }};
}

}  // namespace

StoragePtr adopt_buffer(Device device, Buffer buffer, std::shared_ptr<const void> owner) {
  Context& context = Context::of(device);
  buffer.imported = true;  // not of the allocator's memory
  if (!context.segments.adopt(buffer)) {
    destroy_buffer(context.logical, buffer);
    throw DeviceError(
        fmt::format("{}: the driver gave the address {:#x}, which is not canonical", device.str(), buffer.address));
  }
  return storage_of(device, buffer, std::move(owner));
}

StoragePtr adopt_device_memory(Device device, const Buffer& buffer) {
  CachingAllocator& allocator = Context::of(device).allocator;
  constexpr MemoryUse kUse = MemoryUse::gradients;
  try {
    allocator.add_outside(buffer.bytes, kUse);
  } catch (...) {
    destroy_buffer(Context::of(device).logical, buffer);
    throw;
  }
  // Counted until the buffer has ended.
  const std::shared_ptr<const void> counted(
      nullptr, [&allocator, bytes = buffer.bytes](const void*) { allocator.remove_outside(bytes, kUse); });
  return adopt_buffer(device, buffer, counted);
}

StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (bytes.size() < kLeastBytes || at % kAlignment != 0 || copies_anyway()) return nullptr;
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  const std::uint64_t unit = context.logical.adapter.host_import_alignment;
  if (unit == 0 || unit > kPage) return nullptr;
  const std::uintptr_t begin = at / kPage * kPage, end = (at + bytes.size() + kPage - 1) / kPage * kPage;
  if (end - begin > context.logical.adapter.max_allocation) return nullptr;
  Buffer buffer;
  if (import_buffer(context.logical, reinterpret_cast<void*>(begin), end - begin, buffer) != VK_SUCCESS) return nullptr;
  if (!context.segments.adopt(buffer)) {
    destroy_buffer(context.logical, buffer);
    return nullptr;
  }
  const StoragePtr whole = storage_of(device, buffer, std::move(owner));
  auto storage = std::make_shared<Storage>(device, bytes.size(), nullptr, 0, nullptr);
  storage->rebind(whole, at - begin);
  return storage;
}

gpu::MappedMemory mapped_memory(Device device, std::size_t bytes) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.require_alive();
  Buffer buffer;
  if (const VkResult result = make_buffer(context.logical, BufferUse::report, std::max<std::size_t>(bytes, 4), buffer))
    throw OutOfMemory(fmt::format("{}: no {} of host memory that the GPU can see ({})", device.str(),
                                  readable_bytes(bytes), str(result)));
  return {adopt_buffer(device, buffer, nullptr), buffer.host};
}

bool is_imported(const Storage& storage) {
  Context& context = Context::of(storage.device());
  std::lock_guard lock(context.mutex);
  return storage.has_bytes() && context.segments.is_imported(storage.address());
}

}  // namespace etna::vulkan
