#pragma once

#include <string_view>

namespace etna::data {

/// Whether a shell's pattern describes all of the name, as fnmatch() of POSIX tells: `*` any characters, also slashes,
/// `?` one byte, `[a-z]` and `[!a-z]` one of a set, `\` takes the next one literally. A dot at the beginning is
/// described by a dot only. Internal.
bool glob_match(std::string_view pattern, std::string_view name);

}  // namespace etna::data
