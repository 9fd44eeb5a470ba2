#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/internal/host_import.h>
#include <etna/device/internal/vulkan/memory/memory.h>

namespace etna::vulkan {

/// Backend::import_host(): VK_EXT_external_memory_host, on an adapter that shares its memory with the host.
StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
/// The storage of a buffer, which ends it; adopted by the segments, or destroyed. @throws DeviceError
StoragePtr adopt_buffer(Device device, Buffer buffer, std::shared_ptr<const void> owner);
/// The same of the device's own memory that another API has allocated: the allocator counts it, as gradients.
/// @throws also OutOfMemory
StoragePtr adopt_device_memory(Device device, const Buffer& buffer);
/// gpu::mapped_memory()
gpu::MappedMemory mapped_memory(Device device, std::size_t bytes);
bool is_imported(const Storage& storage);

}  // namespace etna::vulkan
