#pragma once

#include <vector>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// Lanes for a drawing, so that spans that run at the same time lie below each other: one number for each of gpu.spans.
std::vector<int> gpu_lanes(const GpuProfile& gpu);

}  // namespace etna::profile
