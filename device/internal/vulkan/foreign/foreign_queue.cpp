#include <etna/device/internal/vulkan/foreign/foreign_queue.h>

namespace etna::vulkan {
namespace {

VkSemaphore make_timeline(const LogicalDevice& device, bool exported) {
  auto share = structure<VkExportSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
  share.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  if (exported) type.pNext = &share;
  auto info = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  info.pNext = &type;
  VkSemaphore made = VK_NULL_HANDLE;
  check(device.vk.vkCreateSemaphore(device.handle, &info, nullptr, &made), "vkCreateSemaphore");
  return made;
}

}  // namespace

ForeignQueue::ForeignQueue(const LogicalDevice& device, bool exported)
    : device_(device), to_(make_timeline(device, exported)), from_(make_timeline(device, exported)) {}

}  // namespace etna::vulkan
