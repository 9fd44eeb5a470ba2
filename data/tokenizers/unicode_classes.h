#pragma once

#include <cstdint>

namespace etna::data {

/// What GPT-2's pre-tokenization distinguishes: \p{L}, \p{N}, \s and everything else.
enum class CharacterClass : std::uint8_t { other, letter, number, space };

/// The class of every code point, 0 to 0x10FFFF.
const CharacterClass* character_classes();

}  // namespace etna::data
