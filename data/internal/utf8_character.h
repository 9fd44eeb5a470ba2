#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace etna::data {

/// A character of a text. A byte that is not part of well-formed UTF-8 (overlong forms and surrogates included) is a
/// character of its own.
struct Utf8Character {
  std::size_t length;   ///< bytes
  std::uint32_t point;  ///< code point, or the byte
  bool valid;
};

/// The character at text[at], at < text.size().
Utf8Character utf8_character(std::string_view text, std::size_t at);

/// Appends a code point below 0x110000.
void append_utf8(std::string& text, std::uint32_t point);

}  // namespace etna::data
