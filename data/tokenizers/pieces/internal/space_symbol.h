#pragma once

#include <string>
#include <string_view>

namespace etna::data {

/// U+2581, which represents a space in SentencePiece's vocabularies.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

/// Whether a token has this symbol after another character.
inline bool has_inner_space_symbol(std::string_view token) {
  while (token.substr(0, kSpaceSymbol.size()) == kSpaceSymbol) token.remove_prefix(kSpaceSymbol.size());
  return token.find(kSpaceSymbol) != std::string_view::npos;
}

/// Splits a text before each such symbol that follows another character, and calls word(std::string_view) for each
/// part.
template <typename Word>
void for_each_spaced_word(std::string_view text, Word&& word) {
  std::size_t begin = 0, at = 0;
  while (begin < text.size()) {
    while (text.substr(at, kSpaceSymbol.size()) == kSpaceSymbol) at += kSpaceSymbol.size();
    const std::size_t end = text.find(kSpaceSymbol, at);
    at = end == std::string_view::npos ? text.size() : end;
    word(text.substr(begin, at - begin));
    begin = at;
  }
}

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
