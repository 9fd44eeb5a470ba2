#pragma once

#include <string>
#include <string_view>

namespace etna::io {

/// A name from a file for an error: quoted, truncated after 80 bytes, with everything but printable ASCII and valid
/// UTF-8 characters escaped as \xNN.
std::string quoted_name(std::string_view name);

}  // namespace etna::io
