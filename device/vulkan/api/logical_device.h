#pragma once

#include <string>

#include <etna/device/vulkan/api/adapter.h>

namespace etna::vulkan {

/// A VkDevice with its one queue and its functions. Never destroyed: see instance().
struct LogicalDevice {
  LogicalDevice(const Adapter& adapter, Device device);
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;

  const Adapter& adapter;
  const Device device;
  VkDevice handle = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VolkDeviceTable vk{};

  /// Why the device is gone; empty while it lives.
  std::string lost;
  /// @throws DeviceLost once the device was lost.
  void require_alive() const;
};

}  // namespace etna::vulkan
