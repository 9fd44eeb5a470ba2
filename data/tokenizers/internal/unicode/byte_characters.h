#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace etna::data {

/// The character that represents a byte in files of byte-level tokenizers, as UTF-8: visible Latin-1 characters
/// represent themselves; U+0100 and up represent the other 68, in order.
const std::string& byte_character(unsigned char byte);

/// The 256 bytes sorted by their characters, the order of a trained tokenizer's alphabet.
const std::array<unsigned char, 256>& bytes_by_character();

std::string to_characters(std::string_view bytes);
/// Returns nullopt if a character does not represent a byte.
std::optional<std::string> from_characters(std::string_view text);

}  // namespace etna::data
