#pragma once

#include <cstdint>
#include <string>

#include <etna/device/internal/vulkan/api/vk.h>

namespace etna::vulkan {

/// The process's single Vulkan instance, or why there is none.
struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  std::uint32_t version = 0;  ///< supported by both the loader and Etna: 1.2 or 1.3
  std::string missing;        ///< "no Vulkan loader (libvulkan.so.1) was found"
  bool validation = false;
};

/// Created on first use and never destroyed: static objects may still own storages at exit, and drivers shut themselves
/// down with the process.
const Instance& instance();

}  // namespace etna::vulkan
