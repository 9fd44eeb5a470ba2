#pragma once

#include <string>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// What marks such a file near its beginning.
inline constexpr const char* kChromeTraceMark = "\"otherData\":{\"writer\":\"etna\"}";

/// The profile as Trace Event JSON, for ui.perfetto.dev or chrome://tracing. One process holds the host's threads, and
/// each GPU is a process. Times are microseconds since the profile began. An arrow connects the host's queueing of a
/// dispatch with its run.
std::string chrome_trace(const Profile& profile);

}  // namespace etna::profile
