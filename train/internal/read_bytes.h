#pragma once

#include <string>

#include <etna/device/file_path.h>

namespace etna::training {

/// All bytes of a file. @throws FormatError for a file that is missing, unreadable, or no regular file
std::string read_bytes(const FilePath& file);

}  // namespace etna::training
