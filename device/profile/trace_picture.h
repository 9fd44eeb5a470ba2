#pragma once

#include <string>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// Two steps from the middle of the profile as an SVG drawing: what the host did, the tape's nodes, submits and waits,
/// and below them the GPU. Without steps: all of it.
std::string trace_picture(const Profile& profile);

}  // namespace etna::profile
