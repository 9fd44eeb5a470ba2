#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/internal/vulkan/api/half_conversion.h>
#include <etna/device/internal/vulkan/api/types.h>
#include <etna/device/internal/vulkan/api/vk.h>

namespace etna::vulkan {

/// Feature structures of a device, as reported or to be enabled.
struct Features {
  VkPhysicalDeviceFeatures2 core = structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  VkPhysicalDeviceVulkan11Features v11 =
      structure<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  VkPhysicalDeviceVulkan12Features v12 =
      structure<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  VkPhysicalDeviceVulkan13Features v13 =
      structure<VkPhysicalDeviceVulkan13Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = structure<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);

  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16 = structure<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2 = structure<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);

  /// Links the structures that the device supports and returns the head of the chain.
  VkPhysicalDeviceFeatures2* chain(bool with_v13, std::span<const std::string> extensions);
};

/// A physical device: its properties, its features, and whether Etna can use it.
struct Adapter {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  AdapterInfo info;
  Capabilities capabilities;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory{};
  std::uint32_t queue_family = 0;
  std::uint64_t max_allocation = 0;     ///< bytes of the largest buffer that one allocation can hold
  std::vector<std::string> extensions;  ///< to be enabled
  Features features;                    ///< to be enabled
  bool v13 = false;                     ///< the device supports VkPhysicalDeviceVulkan13Features
  bool memory_budget = false;
  /// Of memory of the host that the device, which shares it, reads in place; 0: it does not.
  std::uint64_t host_import_alignment = 0;
  bool exports_memory = false;          ///< and timeline semaphores, as file descriptors, to CUDA
  std::array<std::uint8_t, 16> uuid{};  ///< names the same GPU in other APIs
  HalfConversion half_conversion = HalfConversion::any;

  bool has_extension(const char* name) const;
};

/// What every adapter must offer and this one does not, by Vulkan's names with commas between; empty: nothing.
std::string missing_features(const Features& has, const VkPhysicalDeviceVulkan11Properties& subgroups);

/// The positions of the adapters that $ETNA_VISIBLE_DEVICES lists, in its order: "1,0", "vulkan:1"; none for "none" or
/// an empty text. @param count of all adapters @throws DeviceError for other words, positions not there, repeats
std::vector<std::size_t> visible_adapters(std::string_view list, std::size_t count);

/// All adapters: usable before unusable, then discrete, integrated, virtual, software; then in the driver's order. The
/// position is the Device's index. $ETNA_VISIBLE_DEVICES chooses among them. @throws DeviceError if it cannot be read
const std::vector<Adapter>& all_adapters();

}  // namespace etna::vulkan
