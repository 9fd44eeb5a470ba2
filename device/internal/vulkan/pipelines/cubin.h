#pragma once

#include <string_view>
#include <unordered_map>

#include <etna/device/internal/vulkan/api/logical_device.h>

namespace etna::vulkan {

/// The machine-code kernels that a device uses, loaded on first use (VK_NVX_binary_import). Launches are queued like
/// compute dispatches, in the same command buffers and under the same barriers.
class Cubins {
 public:
  explicit Cubins(const LogicalDevice& device) : device_(device) {}
  Cubins(const Cubins&) = delete;
  Cubins& operator=(const Cubins&) = delete;

  /// @throws DeviceError naming `op` where the device or the build cannot run it
  VkCuFunctionNVX get(const CubinKernel& kernel, std::string_view op);

 private:
  const LogicalDevice& device_;
  std::unordered_map<const std::byte*, VkCuModuleNVX> modules_;  ///< by their bytes
  std::unordered_map<const CubinKernel*, VkCuFunctionNVX> functions_;
};

/// What a launch needs: the kernel's function, and the one struct it takes.
struct CubinLaunch {
  VkCuFunctionNVX function = VK_NULL_HANDLE;
  std::array<std::uint32_t, 3> groups{};
  std::uint32_t threads = 0, shared_bytes = 0;
};
void launch(const VolkDeviceTable& vk, VkCommandBuffer commands, const CubinLaunch& launch,
            std::span<const std::byte> parameters);

}  // namespace etna::vulkan
