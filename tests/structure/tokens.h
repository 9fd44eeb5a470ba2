#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace etna::structure {

using Tokens = std::vector<std::string>;

/// The words and signs of C++ text, "::" being one; without comments, literals and lines of the preprocessor.
Tokens tokens_of(std::string_view text);

bool is_word(const std::string& token);

/// What stands between the commas of a list, outside of all brackets.
std::vector<Tokens> split(const Tokens& tokens, std::size_t begin, std::size_t end);

}  // namespace etna::structure
