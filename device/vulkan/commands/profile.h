#pragma once

#include <etna/device/profile/profiler.h>

/// The profiler's way to the devices in use: its calls, in this order; none throws. begin and finish wait until they
/// are idle.
namespace etna::vulkan {

void begin_profile(const profile::Options& options);
void finish_profile();
/// Adds a GpuProfile for each device in use, times and all.
void take_profile(profile::Profile& profile);

}  // namespace etna::vulkan
