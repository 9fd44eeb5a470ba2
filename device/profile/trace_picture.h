#pragma once

#include <string>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// What marks the picture near its beginning.
inline constexpr const char* kTracePictureMark = "class=\"etna-trace\"";

/// Two steps from the middle of the profile as an SVG: the host's spans, the tape's nodes, submits and waits, and the
/// GPU below them. Without steps: the whole profile.
std::string trace_picture(const Profile& profile);

}  // namespace etna::profile
