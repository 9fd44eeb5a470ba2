#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace etna::data {

/// The character that stands for a byte in files of byte-level tokenizers, as UTF-8: itself for the visible ones of
/// Latin-1, U+0100 and on for the 68 others, in order.
const std::string& byte_character(unsigned char byte);

/// The 256 bytes in order of their characters. The alphabet of a trained tokenizer has this order.
const std::array<unsigned char, 256>& bytes_by_character();

std::string to_characters(std::string_view bytes);
/// Nothing for a text with a character that stands for no byte.
std::optional<std::string> from_characters(std::string_view text);

}  // namespace etna::data
