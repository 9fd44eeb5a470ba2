#include <etna/device/internal/vulkan/memory/memory.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/foreign_work.h>

namespace etna::vulkan {
namespace {

/// The best memory type for the use among those allowed, or -1.
int memory_type(const Adapter& adapter, std::uint32_t allowed, BufferUse use) {
  int best = -1;
  std::uint64_t best_score = 0;
  for (std::uint32_t i = 0; i < adapter.memory.memoryTypeCount; ++i) {
    if (!(allowed & (1u << i))) continue;
    VkMemoryPropertyFlags flags = adapter.memory.memoryTypes[i].propertyFlags;
    const VkMemoryHeap& heap = adapter.memory.memoryHeaps[adapter.memory.memoryTypes[i].heapIndex];
    if (flags & (VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT)) continue;
    bool local = flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    std::uint64_t score = 1;
    if (use == BufferUse::device) {
      if (!local) continue;
      score += heap.size;
    } else {
      constexpr VkMemoryPropertyFlags mapped =
          VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
      if ((flags & mapped) != mapped) continue;
      bool cached = flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
      // Leaves the small host-visible window of the GPU's own memory to others. Uncached reads are very slow.
      score += (local ? 0 : 1) + (cached == (use != BufferUse::upload) ? 2 : 0);
    }
    if (score > best_score) {
      best = static_cast<int>(i);
      best_score = score;
    }
  }
  return best;
}

}  // namespace

VkResult make_buffer(const LogicalDevice& device, BufferUse use, std::size_t bytes, Buffer& out) {
  const VolkDeviceTable& vk = device.vk;
  Buffer made;
  made.bytes = bytes;
  auto info = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (use != BufferUse::download) {
    info.usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  }
  const bool shared = use == BufferUse::device && gpu::shares_memory() && device.adapter.exports_memory;
  auto external = structure<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (shared) info.pNext = &external;
  VkResult result = vk.vkCreateBuffer(device.handle, &info, nullptr, &made.handle);
  if (result != VK_SUCCESS) return result;

  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device.handle, made.handle, &needs);
  int type = memory_type(device.adapter, needs.memoryTypeBits, use);
  auto flags = structure<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  auto allocation = structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  if (use != BufferUse::download) allocation.pNext = &flags;
  auto exported = structure<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
  exported.handleTypes = external.handleTypes;
  if (shared) {
    flags.pNext = &exported;
    made.shareable = needs.size;
  }
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = static_cast<std::uint32_t>(type);
  result =
      type < 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : vk.vkAllocateMemory(device.handle, &allocation, nullptr, &made.memory);
  if (result == VK_SUCCESS) result = vk.vkBindBufferMemory(device.handle, made.handle, made.memory, 0);
  if (result == VK_SUCCESS && use != BufferUse::device) {
    void* mapped = nullptr;
    result = vk.vkMapMemory(device.handle, made.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    made.host = static_cast<std::byte*>(mapped);
  }
  if (result != VK_SUCCESS) {
    destroy_buffer(device, made);
    return result;
  }
  if (use != BufferUse::download) {
    auto which = structure<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
    which.buffer = made.handle;
    made.address = vk.vkGetBufferDeviceAddress(device.handle, &which);
  }
  out = made;
  return VK_SUCCESS;
}

namespace {

/// A buffer over memory of others. @param import the structure that names it @param types allowed, of memory
VkResult import_memory(const LogicalDevice& device, VkExternalMemoryHandleTypeFlagBits kind, const void* import,
                       std::uint32_t types, std::size_t bytes, Buffer& out) {
  const VolkDeviceTable& vk = device.vk;
  Buffer made;
  made.bytes = bytes;
  made.imported = true;
  auto external = structure<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  external.handleTypes = kind;
  auto info = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.pNext = &external;
  info.size = bytes;
  info.usage =
      VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (kind == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT) info.usage |= VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkResult result = vk.vkCreateBuffer(device.handle, &info, nullptr, &made.handle);
  if (result != VK_SUCCESS) return result;

  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device.handle, made.handle, &needs);
  types &= needs.memoryTypeBits;
  auto flags = structure<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.pNext = import;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  auto allocation = structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocation.pNext = &flags;
  allocation.allocationSize = bytes;
  allocation.memoryTypeIndex = static_cast<std::uint32_t>(std::countr_zero(types));
  result = types == 0 || needs.size > bytes ? VK_ERROR_INVALID_EXTERNAL_HANDLE
                                            : vk.vkAllocateMemory(device.handle, &allocation, nullptr, &made.memory);
  if (result == VK_SUCCESS) result = vk.vkBindBufferMemory(device.handle, made.handle, made.memory, 0);
  if (result != VK_SUCCESS) {
    destroy_buffer(device, made);
    return result;
  }
  auto which = structure<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
  which.buffer = made.handle;
  made.address = vk.vkGetBufferDeviceAddress(device.handle, &which);
  out = made;
  return VK_SUCCESS;
}

}  // namespace

VkResult import_buffer(const LogicalDevice& device, void* pages, std::size_t bytes, Buffer& out) {
  constexpr VkExternalMemoryHandleTypeFlagBits kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  auto memory = structure<VkMemoryHostPointerPropertiesEXT>(VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT);
  const VkResult result = device.vk.vkGetMemoryHostPointerPropertiesEXT(device.handle, kind, pages, &memory);
  if (result != VK_SUCCESS) return result;
  auto import = structure<VkImportMemoryHostPointerInfoEXT>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
  import.handleType = kind;
  import.pHostPointer = pages;
  return import_memory(device, kind, &import, memory.memoryTypeBits, bytes, out);
}

VkResult import_buffer(const LogicalDevice& device, int descriptor, std::size_t bytes, Buffer& out) {
  constexpr VkExternalMemoryHandleTypeFlagBits kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  auto import = structure<VkImportMemoryFdInfoKHR>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
  import.handleType = kind;
  import.fd = descriptor;
  const int local = memory_type(device.adapter, ~0u, BufferUse::device);
  return import_memory(device, kind, &import, local < 0 ? 0 : 1u << local, bytes, out);
}

void destroy_buffer(const LogicalDevice& device, const Buffer& buffer) {
  device.vk.vkDestroyBuffer(device.handle, buffer.handle, nullptr);
  device.vk.vkFreeMemory(device.handle, buffer.memory, nullptr);
}

bool BufferSegments::allocate(std::size_t bytes, Segment& out, std::string& why) {
  std::lock_guard lock(mutex_);
  device_.require_alive();
  if (bytes > device_.adapter.max_allocation) {
    why = fmt::format("the driver gives at most {} at once", readable_bytes(device_.adapter.max_allocation));
    return false;
  }
  Buffer buffer;
  VkResult result = make_buffer(device_, BufferUse::device, bytes, buffer);
  if (result != VK_SUCCESS) {
    why = fmt::format("{}; {}", str(result), limits());
    return false;
  }
  // Captured steps recognize placeholders by non-canonical addresses, so a buffer may not have one.
  if (buffer.address >> 62 == 1) {
    destroy_buffer(device_, buffer);
    throw DeviceError(fmt::format("{}: the driver gave the address {:#x}, which is not canonical", device_.device.str(),
                                  buffer.address));
  }
  by_address_.emplace(buffer.address, buffer);
  out.handle = nullptr;
  out.host = nullptr;
  out.address = buffer.address;
  out.bytes = bytes;
  return true;
}

bool BufferSegments::adopt(const Buffer& buffer) {
  std::lock_guard lock(mutex_);
  // As in allocate(), an address may not look like a placeholder.
  return buffer.address >> 62 != 1 && by_address_.emplace(buffer.address, buffer).second;
}

const Buffer* BufferSegments::buffer_at(std::uint64_t address) const {
  std::lock_guard lock(mutex_);
  const auto next = by_address_.upper_bound(address);
  if (next == by_address_.begin()) return nullptr;
  const Buffer& buffer = std::prev(next)->second;
  return address < buffer.address + buffer.bytes ? &buffer : nullptr;
}

bool BufferSegments::is_imported(std::uint64_t address) const {
  const Buffer* buffer = buffer_at(address);
  return buffer != nullptr && buffer->imported;
}

void BufferSegments::synchronize() {
  std::lock_guard lock(mutex_);
  // A lost device accesses nothing any more.
  if (device_.lost.empty()) finish_();
}

void BufferSegments::release(const Segment& segment) {
  std::lock_guard lock(mutex_);
  auto found = by_address_.find(segment.address);
  if (found == by_address_.end()) return;
  if (released_) released_(found->second);
  destroy_buffer(device_, found->second);
  by_address_.erase(found);
}

BufferSpan BufferSegments::find(std::uint64_t address, std::size_t bytes) const {
  auto next = by_address_.upper_bound(address);
  if (next != by_address_.begin()) {
    const Buffer& buffer = std::prev(next)->second;
    if (address + bytes <= buffer.address + buffer.bytes) {
      return {buffer.handle, address - buffer.address, {address, bytes}};
    }
  }
  throw DeviceError(fmt::format("{}: {} bytes at address {:#x} are not in one of its allocations", device_.device.str(),
                                bytes, address));
}

std::vector<BufferSegments::Heap> BufferSegments::local_heaps() const {
  auto budget = structure<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  auto memory = structure<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  if (device_.adapter.memory_budget) memory.pNext = &budget;
  vkGetPhysicalDeviceMemoryProperties2(device_.adapter.handle, &memory);
  std::vector<Heap> heaps;
  for (std::uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryProperties.memoryHeaps[i];
    if (!(heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    Heap& found = heaps.emplace_back(Heap{i, heap.size, std::nullopt});
    if (device_.adapter.memory_budget)
      found.free = budget.heapBudget[i] - std::min(budget.heapBudget[i], budget.heapUsage[i]);
  }
  return heaps;
}

/// "heap 0: 80.0 GiB (12.1 GiB free)" for every device-local heap.
std::string BufferSegments::limits() const {
  std::string text;
  for (const Heap& heap : local_heaps()) {
    text += fmt::format("{}heap {}: {}", text.empty() ? "" : ", ", heap.index, readable_bytes(heap.bytes));
    if (heap.free) text += fmt::format(" ({} free)", readable_bytes(*heap.free));
  }
  return text;
}

std::uint64_t BufferSegments::available() const {
  std::uint64_t used = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [address, buffer] : by_address_) used += buffer.imported ? 0 : buffer.bytes;
  }
  // Segments are in the largest heap.
  std::uint64_t most = 0;
  for (const Heap& heap : local_heaps())
    most = std::max(most, heap.free.value_or(heap.bytes - std::min(heap.bytes, used)));
  return most;
}

}  // namespace etna::vulkan
