#pragma once

#include <vector>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// Assigns a lane to each of gpu.spans for drawing: spans that overlap in time get different lanes.
std::vector<int> gpu_lanes(const GpuProfile& gpu);

}  // namespace etna::profile
