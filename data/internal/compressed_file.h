#pragma once

#include <cstddef>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::data {

/// Up to `most` bytes from the beginning of a file; a file that begins as gzip's do is decompressed (by zlib).
/// @param kind what the file should be, for errors: "an IDX file"
/// @throws FormatError for a file that is missing, unreadable or a folder, whose compressed data are damaged, or that
/// is compressed while this build has no zlib
std::vector<std::byte> read_file(const FilePath& path, const char* kind, std::size_t most);

}  // namespace etna::data
