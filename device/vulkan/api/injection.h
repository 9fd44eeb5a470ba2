#pragma once

#include <etna/device/device.h>

/// Hooks for tests: failures that no test machine produces by itself.
namespace etna::vulkan::injection {

/// The next submit, on whatever device, fails with this VkResult (-4 device lost, -1 and -2 out of memory) instead of
/// reaching the GPU. 0 takes it back.
void fail_next_submit(int vk_result);

/// Takes back a loss that fail_next_submit() made up.
void revive(Device device);

}  // namespace etna::vulkan::injection
