#include <etna/device/internal/vulkan/api/logical_device.h>

#include <vector>

#include <etna/device/error.h>

namespace etna::vulkan {

LogicalDevice::LogicalDevice(const Adapter& from, Device which) : adapter(from), device(which) {
  float priority = 1;
  auto queue_info = structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue_info.queueFamilyIndex = adapter.queue_family;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;

  std::vector<const char*> extensions;
  for (const std::string& name : adapter.extensions) extensions.push_back(name.c_str());
  Features features = adapter.features;
  auto info = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = features.chain(adapter.v13, adapter.extensions);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(vkCreateDevice(adapter.handle, &info, nullptr, &handle), "vkCreateDevice");
  volkLoadDeviceTable(&vk, handle);
  vk.vkGetDeviceQueue(handle, adapter.queue_family, 0, &queue);
}

void LogicalDevice::require_alive() const {
  if (!lost.empty()) throw DeviceLost(lost);
}

}  // namespace etna::vulkan
