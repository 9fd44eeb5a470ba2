#pragma once

#include <etna/device/kernel.h>

/// What ops describe work with (device/kernel.h), by the short names of this backend.
namespace etna::vulkan {
using namespace gpu;
using Range = MemoryRange;
}  // namespace etna::vulkan
