#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::data {

/// Reads a whole file of UTF-8 text.
/// @throws FormatError for a file that is missing, unreadable, a folder or a device, that has more bytes than there is
/// memory, that contains NUL bytes, or that is not UTF-8; `advice` ends the message ("; tools/get-wikitext2 fetches
/// it").
std::string read_text_file(const FilePath& file, std::string_view advice = {});

/// Opens a file of text to be read once, a pipe too; one that nobody writes to is empty.
/// @param why set to the reason where the result is null: it is missing, unreadable, a folder or a device
std::FILE* open_text_stream(const FilePath& file, std::string& why);

/// The lines of a text file, without their ends (LF or CRLF). @throws FormatError as read_text_file()
std::vector<std::string> read_lines(const FilePath& file);

/// Offset of the first byte that is not part of well-formed UTF-8 (no overlong forms, no surrogates); npos if there is
/// none.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace etna::data
