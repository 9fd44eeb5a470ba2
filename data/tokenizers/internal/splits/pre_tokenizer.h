#pragma once

#include <cstddef>
#include <string_view>

#include <etna/data/tokenizers/internal/unicode/character_reader.h>

namespace etna::data {

/// The end of the word that starts at text[begin], begin < text.size(), according to GPT-2's regular expression:
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`. A byte that is not part of
/// well-formed UTF-8 counts as one character that is not a letter, number or space.
std::size_t word_end(const CharacterReader& text, std::size_t begin);

/// Calls word(std::string_view) for each word of a text, in order; concatenated, the words are the text.
template <typename Word>
void for_each_word(std::string_view text, Word&& word) {
  const CharacterReader reader(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(reader, at);
    word(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace etna::data
