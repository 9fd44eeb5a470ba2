#pragma once

#include <etna/device/kernel.h>

/// Brings the types of device/kernel.h into this backend's namespace.
namespace etna::vulkan {
using namespace gpu;
using Range = MemoryRange;
}  // namespace etna::vulkan
