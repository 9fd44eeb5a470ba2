#pragma once

#include <etna/device/device.h>

/// Test hooks: failures that no test machine produces by itself.
namespace etna::vulkan::injection {

/// The next submit, on any device, fails with this VkResult (-4 device lost, -1 and -2 out of memory) instead of
/// reaching the GPU. 0 cancels it.
void fail_next_submit(int vk_result);

/// Undoes a device loss that fail_next_submit() simulated.
void revive(Device device);

}  // namespace etna::vulkan::injection
