#pragma once

#include <string>

#include <etna/device/profile/summary.h>

namespace etna::profile {

/// The profile as a table to read: times a step (in all where there were no steps), ops by their time, what the GPU did
/// besides, what crossed the bus, memory. docs/profiling.md says what each number means.
std::string report(const Profile& profile);

}  // namespace etna::profile
