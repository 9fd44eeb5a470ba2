#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/data/tokenizers/internal/unicode/character_reader.h>

namespace etna::data {

/// A hand-written matcher for one regular expression: faster than a library, and the common tokenizers need none.
/// @return the end of the match that begins at text[at], at < text.size(); `at` if there is none
using SplitScanner = std::size_t (*)(const CharacterReader& text, std::size_t at);

/// The scanner of an expression, spelled as in published_patterns.h; null for any other.
SplitScanner split_scanner(std::string_view pattern);
/// The expressions that have a scanner.
std::vector<std::string_view> scanned_patterns();

/// Calls part(std::string_view, bool matched) for the matches of a scanner and the text between them, in order.
template <typename Part>
void for_each_part(std::string_view text, SplitScanner scanner, Part&& part) {
  const CharacterReader reader(text);
  std::size_t begin = 0;  // of unmatched text
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = scanner(reader, at);
    if (end == at) {
      at = reader.next(at);
      continue;
    }
    if (at > begin) part(text.substr(begin, at - begin), false);
    part(text.substr(at, end - at), true);
    begin = at = end;
  }
  if (begin < text.size()) part(text.substr(begin), false);
}

/// All matches, in order: begin, end.
std::vector<std::pair<std::size_t, std::size_t>> scanner_matches(SplitScanner scanner, std::string_view text);

}  // namespace etna::data
