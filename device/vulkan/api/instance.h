#pragma once

#include <cstdint>
#include <string>

#include <etna/device/vulkan/api/vk.h>

namespace etna::vulkan {

/// The process's one Vulkan instance, or why there is none.
struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  std::uint32_t version = 0;  ///< what the loader and we both speak: 1.2 or 1.3
  std::string missing;        ///< "no Vulkan loader (libvulkan.so.1) was found"
  bool validation = false;
};

/// Made on first use and never destroyed: static objects of the program may still own storages at exit, and drivers
/// tear themselves down with the process.
const Instance& instance();

}  // namespace etna::vulkan
