#pragma once

#include <etna/device/internal/graph/hazards.h>
#include <etna/device/kernel.h>

/// Brings the types of device/kernel.h, and those that order commands, into this backend's namespace.
namespace etna::vulkan {
using namespace gpu;
using graph::Barrier;
using graph::Hazards;
using graph::kCompute;
using graph::kTransfer;
using graph::Stage;
using Range = MemoryRange;
}  // namespace etna::vulkan
