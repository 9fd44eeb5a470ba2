#pragma once

#include <string>
#include <string_view>

namespace etna::io {

/// A name from a file, fit for an error message: in quotes, cut after 80 bytes, with everything but printable ASCII and
/// whole UTF-8 characters as \xNN.
std::string quoted_name(std::string_view name);

}  // namespace etna::io
