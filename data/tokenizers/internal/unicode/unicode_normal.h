#pragma once

#include <string>
#include <string_view>

namespace etna::data {

/// Unicode's normal forms. Bytes that are not UTF-8 stay unchanged.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string to_normal_form(std::string_view text, NormalForm form);

/// Lowercases each character on its own, independent of context and language.
std::string to_lowercase(std::string_view text);

/// Removes combining marks (general category M).
std::string without_accents(std::string_view text);

/// Removes leading and trailing white space.
std::string strip(std::string_view text, bool left, bool right);

}  // namespace etna::data
