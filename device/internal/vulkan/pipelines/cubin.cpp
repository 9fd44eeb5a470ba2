#include <etna/device/internal/vulkan/pipelines/cubin.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::vulkan {

VkCuFunctionNVX Cubins::get(const CubinKernel& kernel, std::string_view op) {
  if (auto found = functions_.find(&kernel); found != functions_.end()) return found->second;
  const std::uint32_t runs = device_.adapter.capabilities.cubin;
  if (kernel.cubin.empty() || runs != kernel.architecture) {
    throw DeviceError(
        fmt::format("{}: the kernel {} is machine code for sm_{}, {}", op, kernel.name, kernel.architecture,
                    kernel.cubin.empty()
                        ? "which this build was made without, since CMake found no nvcc"
                        : fmt::format("which {} ({}) does not run", device_.device.str(), device_.adapter.info.name)));
  }
  auto failed = [&](VkResult result) {
    return DeviceError(
        fmt::format("{}: {} cannot load the kernel {}: {}", op, device_.device.str(), kernel.name, str(result)));
  };
  VkCuModuleNVX& module = modules_[kernel.cubin.data()];
  if (module == VK_NULL_HANDLE) {
    auto info = structure<VkCuModuleCreateInfoNVX>(VK_STRUCTURE_TYPE_CU_MODULE_CREATE_INFO_NVX);
    info.dataSize = kernel.cubin.size();
    info.pData = kernel.cubin.data();
    if (VkResult r = device_.vk.vkCreateCuModuleNVX(device_.handle, &info, nullptr, &module)) throw failed(r);
  }
  auto info = structure<VkCuFunctionCreateInfoNVX>(VK_STRUCTURE_TYPE_CU_FUNCTION_CREATE_INFO_NVX);
  info.module = module;
  info.pName = kernel.name;
  VkCuFunctionNVX function = VK_NULL_HANDLE;
  if (VkResult r = device_.vk.vkCreateCuFunctionNVX(device_.handle, &info, nullptr, &function)) throw failed(r);
  return functions_[&kernel] = function;
}

void launch(const VolkDeviceTable& vk, VkCommandBuffer commands, const CubinLaunch& launch,
            std::span<const std::byte> parameters) {
  // Aligned as strictly as a kernel's parameter may require (a tensor map: 64 bytes).
  alignas(64) std::array<std::byte, CubinDispatch::kMostParameters> copy;
  std::memcpy(copy.data(), parameters.data(), parameters.size());
  const void* parameter = copy.data();
  auto info = structure<VkCuLaunchInfoNVX>(VK_STRUCTURE_TYPE_CU_LAUNCH_INFO_NVX);
  info.function = launch.function;
  info.gridDimX = launch.groups[0];
  info.gridDimY = launch.groups[1];
  info.gridDimZ = launch.groups[2];
  info.blockDimX = launch.threads;
  info.blockDimY = info.blockDimZ = 1;
  info.sharedMemBytes = launch.shared_bytes;
  info.paramCount = 1;
  info.pParams = &parameter;
  vk.vkCmdCuLaunchKernelNVX(commands, &info);
}

}  // namespace etna::vulkan
