#pragma once

#include <string>
#include <vector>

#include <etna/device/profile/profile.h>

/// Profiles as files.
namespace etna::profile {

/// Tries to create a file next to `path`, so a wrong name is reported before training, not after it.
/// @throws FormatError where that fails
void require_trace_writable(const std::string& path);

/// What such a file begins with, by the ending of its name (io::OutputFile::marks).
std::vector<std::string> trace_marks(const std::string& path);

/// Writes a picture where `path` ends in .svg (<etna/device/profile/trace_picture.h>), else a Chrome trace
/// (<etna/device/profile/chrome_trace.h>). The file is replaced as a whole or not at all.
/// @throws FormatError where it cannot be written
void write_trace(const Profile& profile, const std::string& path);

}  // namespace etna::profile
