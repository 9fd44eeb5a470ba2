#include <etna/data/tokenizers/pre_tokenizer.h>

#include <cstdint>

#include <etna/data/tokenizers/unicode_classes.h>

namespace etna::data {
namespace {

struct Character {
  std::size_t length;  ///< bytes
  CharacterClass kind;
};

/// The character at text[at]; a byte of ill-formed UTF-8 is `other`.
Character character_at(std::string_view text, std::size_t at) {
  static const CharacterClass* const classes = character_classes();
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, classes[lead]};
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const auto low = [&](std::size_t i) { return byte(i) & 0x3F; };
  if (lead >= 0xC2 && lead <= 0xDF && follows(1)) return {2, classes[(lead & 0x1F) << 6 | low(1)]};
  if (lead >= 0xE0 && lead <= 0xEF && follows(1) && follows(2)) {
    const std::uint32_t point = (lead & 0x0F) << 12 | low(1) << 6 | low(2);
    if (point >= 0x800 && (point < 0xD800 || point > 0xDFFF)) return {3, classes[point]};
  }
  if (lead >= 0xF0 && lead <= 0xF4 && follows(1) && follows(2) && follows(3)) {
    const std::uint32_t point = (lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
    if (point >= 0x10000 && point <= 0x10FFFF) return {4, classes[point]};
  }
  return {1, CharacterClass::other};
}

/// Bytes of the contraction at text[at]; 0 if there is none.
std::size_t contraction_at(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 == text.size()) return 0;
  const char next = text[at + 1];
  if (next == 's' || next == 't' || next == 'm' || next == 'd') return 2;
  const std::string_view two = text.substr(at + 1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

}  // namespace

std::size_t word_end(std::string_view text, std::size_t begin) {
  if (const std::size_t length = contraction_at(text, begin)) return begin + length;
  std::size_t at = begin;
  Character c = character_at(text, at);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Character next = character_at(text, at + 1);
    if (next.kind != CharacterClass::space) {
      ++at;
      c = next;
    }
  }
  const CharacterClass kind = c.kind;
  std::size_t last = at;  // where the last character of the run starts
  do {
    last = at;
    at += c.length;
    if (at >= text.size()) return at;
    c = character_at(text, at);
  } while (c.kind == kind);
  // White space leaves its last character to the word that follows.
  return kind == CharacterClass::space && last > begin ? last : at;
}

}  // namespace etna::data
