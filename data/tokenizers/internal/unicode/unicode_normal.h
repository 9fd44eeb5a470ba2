#pragma once

#include <string>
#include <string_view>

namespace etna::data {

/// Unicode's normal forms. Bytes that are not UTF-8 stay as they are.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string to_normal_form(std::string_view text, NormalForm form);

/// Every character by itself, whatever its neighbours and the language.
std::string to_lowercase(std::string_view text);

/// Without combining marks, those of general category M.
std::string without_accents(std::string_view text);

/// Without white space at the beginning and at the end.
std::string strip(std::string_view text, bool left, bool right);

}  // namespace etna::data
