#pragma once

#include <etna/device/profile/profiler.h>

/// The profiler's calls for the devices in use, in this order; none throws. begin and finish wait until the devices are
/// idle.
namespace etna::vulkan {

void begin_profile(const profile::Options& options);
void finish_profile();
/// Adds a GpuProfile for each device in use, including times.
void take_profile(profile::Profile& profile);

}  // namespace etna::vulkan
