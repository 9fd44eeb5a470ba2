#pragma once

#include <string>

#include <etna/device/internal/vulkan/api/adapter.h>

namespace etna::vulkan {

/// A VkDevice with its queue and its functions. Never destroyed: see instance().
struct LogicalDevice {
  LogicalDevice(const Adapter& adapter, Device device);
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;

  const Adapter& adapter;
  const Device device;
  VkDevice handle = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VolkDeviceTable vk{};

  /// Why the device was lost; empty while it is alive.
  std::string lost;
  /// @throws DeviceLost if the device was lost.
  void require_alive() const;
};

}  // namespace etna::vulkan
