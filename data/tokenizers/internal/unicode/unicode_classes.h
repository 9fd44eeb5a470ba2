#pragma once

#include <cstdint>

namespace etna::data {

/// The character classes of pre-tokenizers: general categories of Unicode 14. `space` is the property White_Space;
/// `other` is the rest: control and format characters and unassigned code points.
enum class Category : std::uint8_t {
  other,
  uppercase,        ///< Lu
  lowercase,        ///< Ll
  titlecase,        ///< Lt
  modifier_letter,  ///< Lm
  other_letter,     ///< Lo
  mark,             ///< M
  number,           ///< N
  punctuation,      ///< P
  symbol,           ///< S
  space
};

/// A set of categories.
class CategorySet {
 public:
  template <typename... Categories>
  constexpr explicit CategorySet(Categories... members) : bits_((0u | ... | (1u << static_cast<unsigned>(members)))) {}

  constexpr bool has(Category c) const { return (bits_ >> static_cast<unsigned>(c) & 1u) != 0; }
  constexpr CategorySet operator|(CategorySet other) const { return from_bits(bits_ | other.bits_); }
  constexpr CategorySet operator~() const { return from_bits(~bits_); }

 private:
  static constexpr CategorySet from_bits(unsigned bits) {
    CategorySet made;
    made.bits_ = bits;
    return made;
  }

  unsigned bits_;
};

constexpr CategorySet kLetter{Category::uppercase, Category::lowercase, Category::titlecase, Category::modifier_letter,
                              Category::other_letter};
constexpr CategorySet kNumber{Category::number};
constexpr CategorySet kSpace{Category::space};
/// [^\s\p{L}\p{N}]
constexpr CategorySet kOther = ~(kLetter | kNumber | kSpace);

/// The category of every code point, 0 to 0x10FFFF.
const Category* character_categories();

}  // namespace etna::data
