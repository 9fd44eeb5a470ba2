#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>

namespace etna::data {

/// U+2581, which represents a space in SentencePiece's vocabularies.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

/// Where a text can be cut so that each part can be encoded alone: before a U+2581 after another character, if no token
/// has the two next to each other. Tokens then neither merge nor match across the cut.
class SpaceCuts {
 public:
  void add_token(std::string_view token) {
    for (std::size_t at = 0; (at = token.find(kSpaceSymbol, at)) != std::string_view::npos; at += kSpaceSymbol.size())
      if (at > 0 && !token.substr(0, at).ends_with(kSpaceSymbol)) joined_.set(last_byte(token.substr(0, at)));
  }

  /// @param before the text before a U+2581, which ends with another character
  bool may_follow(std::string_view before) const { return !joined_.test(last_byte(before)); }

  /// Calls word(std::string_view) for each part of a text that is cut wherever it can be.
  template <typename Word>
  void for_each_word(std::string_view text, Word&& word) const {
    std::size_t begin = 0, at = 0;
    while (begin < text.size()) {
      while (text.substr(at, kSpaceSymbol.size()) == kSpaceSymbol) at += kSpaceSymbol.size();
      at = std::min(text.find(kSpaceSymbol, at), text.size());
      if (at < text.size() && !may_follow(text.substr(0, at))) continue;
      word(text.substr(begin, at - begin));
      begin = at;
    }
  }

 private:
  static std::size_t last_byte(std::string_view text) { return static_cast<unsigned char>(text.back()); }

  std::bitset<256> joined_;  ///< last bytes of the characters that precede a U+2581 in some token
};

/// A text with every `from` replaced by `to`. `from` must not be empty.
inline std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const std::size_t found = text.find(from);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += to;
    text.remove_prefix(found + from.size());
  }
}

}  // namespace etna::data
