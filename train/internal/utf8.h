#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace etna::training {

struct Character {
  char32_t code = 0;      ///< the byte itself where it is not part of well-formed UTF-8
  std::size_t bytes = 1;  ///< that it takes up in the text
  bool valid = true;
};

/// The first character of a text that is not empty. Overlong forms, surrogates and codes above U+10FFFF are not valid.
Character first_character(std::string_view text);

/// Adds a character, U+10FFFF at most.
void append_utf8(std::string& text, char32_t code);

}  // namespace etna::training
