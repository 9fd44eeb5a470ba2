#pragma once

#include <string>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// The profile as Trace Event JSON, for ui.perfetto.dev or chrome://tracing: a process with the host's threads, one for
/// each GPU, times in microseconds from the profile's begin, and an arrow from where the host recorded a dispatch to
/// where it ran.
std::string chrome_trace(const Profile& profile);

}  // namespace etna::profile
