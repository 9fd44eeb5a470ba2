#pragma once

#include <volk.h>

#include <cstdint>

/// Vulkan, with what the oldest headers we build against (1.3.239) do not have yet.

#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};
inline constexpr auto VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    static_cast<VkStructureType>(1000506000);
#endif

#ifndef VK_KHR_portability_subset
#define VK_KHR_PORTABILITY_SUBSET_EXTENSION_NAME "VK_KHR_portability_subset"
#endif

namespace etna::vulkan {

/// A zeroed Vulkan structure that says its type.
template <typename T>
T structure(VkStructureType type) {
  T made{};
  made.sType = type;
  return made;
}

/// "VK_ERROR_DEVICE_LOST"
const char* str(VkResult result);

/// @throws OutOfMemory for Vulkan's two out-of-memory results, DeviceError for any other failure, naming the call.
void check(VkResult result, const char* call);

}  // namespace etna::vulkan
