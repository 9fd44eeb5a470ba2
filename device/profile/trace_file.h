#pragma once

#include <string>

#include <etna/device/profile/profile.h>

/// Profiles as files.
namespace etna::profile {

/// Tries to write beside `path`, so that a wrong name is known before the training and not after it.
/// @throws FormatError where that fails
void require_trace_writable(const std::string& path);

/// A picture where `path` ends in .svg (<etna/device/profile/trace_picture.h>), else a Chrome trace
/// (<etna/device/profile/chrome_trace.h>). The file is replaced whole or not at all.
/// @throws FormatError where it cannot be written
void write_trace(const Profile& profile, const std::string& path);

}  // namespace etna::profile
