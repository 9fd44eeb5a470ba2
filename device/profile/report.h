#pragma once

#include <string>

#include <etna/device/profile/summary.h>

namespace etna::profile {

/// The profile as a readable table: times per step (totals where there were no steps), ops by time, what else the GPU
/// did, transfers, memory. docs/profiling.md explains each number.
std::string report(const Profile& profile);

}  // namespace etna::profile
