#pragma once

#include <string>
#include <string_view>

namespace etna::models {

/// A regular expression for texts that all have a format of JSON schema; empty: the format is not supported.
std::string regex_of_format(std::string_view format);
/// The names of all that are, for errors.
std::string known_formats();

}  // namespace etna::models
