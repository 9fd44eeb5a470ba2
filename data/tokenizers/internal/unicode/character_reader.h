#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <etna/data/tokenizers/internal/unicode/unicode_classes.h>

namespace etna::data {

/// Reads the characters of a text and their categories. A byte that is not part of well-formed UTF-8 is a character of
/// category `other`. The end of the text belongs to no set.
class CharacterReader {
 public:
  explicit CharacterReader(std::string_view text) : text_(text), categories_(table()) {}

  struct Character {
    std::size_t length;  ///< bytes
    Category category;
    std::uint32_t point;  ///< code point, or the byte
  };

  std::string_view text() const { return text_; }
  std::size_t size() const { return text_.size(); }

  /// The character at text[at], at < size().
  Character at(std::size_t at) const {
    const auto byte = [&](std::size_t i) {
      return at + i < text_.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text_[at + i])) : 0u;
    };
    const std::uint32_t lead = byte(0);
    if (lead < 0x80) return {1, categories_[lead], lead};
    const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
    const auto low = [&](std::size_t i) { return byte(i) & 0x3F; };
    if (lead >= 0xC2 && lead <= 0xDF && follows(1)) return known(2, (lead & 0x1F) << 6 | low(1));
    if (lead >= 0xE0 && lead <= 0xEF && follows(1) && follows(2)) {
      const std::uint32_t point = (lead & 0x0F) << 12 | low(1) << 6 | low(2);
      if (point >= 0x800 && (point < 0xD800 || point > 0xDFFF)) return known(3, point);
    }
    if (lead >= 0xF0 && lead <= 0xF4 && follows(1) && follows(2) && follows(3)) {
      const std::uint32_t point = (lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
      if (point >= 0x10000 && point <= 0x10FFFF) return known(4, point);
    }
    return {1, Category::other, lead};
  }

  bool is(std::size_t at, CategorySet set) const { return at < text_.size() && set.has(this->at(at).category); }
  bool is(std::size_t at, char c) const { return at < text_.size() && text_[at] == c; }
  bool is_line_end(std::size_t at) const { return is(at, '\r') || is(at, '\n'); }

  /// The begin of the character after the one at text[at].
  std::size_t next(std::size_t at) const { return at + this->at(at).length; }

  /// The end of the run of characters in `set` that begins at text[at].
  std::size_t skip(std::size_t at, CategorySet set) const {
    while (at < text_.size()) {
      const Character c = this->at(at);
      if (!set.has(c.category)) break;
      at += c.length;
    }
    return at;
  }

  /// The end of the run of line ends and `also`.
  std::size_t skip_line_ends(std::size_t at, char also = '\n') const {
    while (is_line_end(at) || is(at, also)) ++at;
    return at;
  }

 private:
  static const Category* table() {
    static const Category* const categories = character_categories();
    return categories;
  }

  Character known(std::size_t length, std::uint32_t point) const { return {length, categories_[point], point}; }

  std::string_view text_;
  const Category* categories_;
};

}  // namespace etna::data
