#pragma once

#include <filesystem>
#include <string>

namespace etna::training {

/// All bytes of a file. @throws FormatError for a file that is missing, unreadable, or no regular file
std::string read_bytes(const std::filesystem::path& file);

}  // namespace etna::training
