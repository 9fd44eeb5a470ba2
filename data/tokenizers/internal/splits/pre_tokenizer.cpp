#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>

#include <etna/data/tokenizers/internal/unicode/character_reader.h>

namespace etna::data {
namespace {

/// The length of the contraction at text[at] in bytes; 0 if there is none.
std::size_t contraction_at(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char next = text[at + 1];
  if (next == 's' || next == 't' || next == 'm' || next == 'd') return 2;
  const std::string_view two = text.substr(at + 1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

CategorySet class_of(Category category) {
  for (const CategorySet set : {kLetter, kOther, kSpace})
    if (set.has(category)) return set;
  return kNumber;
}

}  // namespace

std::size_t word_end(const CharacterReader& text, std::size_t begin) {
  if (const std::size_t length = contraction_at(text.text(), begin)) return begin + length;
  std::size_t at = begin;
  CharacterReader::Character c = text.at(at);
  if (text.is(at, ' ') && at + 1 < text.size()) {
    const CharacterReader::Character next = text.at(at + 1);
    if (next.category != Category::space) {
      ++at;
      c = next;
    }
  }
  const CategorySet kind = class_of(c.category);
  std::size_t last = at;  // where the last character of the run starts
  do {
    last = at;
    at += c.length;
    if (at >= text.size()) return at;
    c = text.at(at);
  } while (kind.has(c.category));
  // The last white space character belongs to the word that follows.
  return kind.has(Category::space) && last > begin ? last : at;
}

}  // namespace etna::data
