#pragma once

#include <string>
#include <string_view>

#include <etna/data/tokenizers/internal/unicode/charsmap.h>
#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>

namespace etna::data {

/// What SentencePiece does to a text before it cuts it: rules for characters, one space where there are several, a
/// space before the first word, and U+2581 for every space.
struct SentencePieceNormalizer {
  Charsmap rules;
  PrefixTrie user_defined;  ///< these stay as they are
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
  bool keep_invalid = false;  ///< bytes that are not UTF-8 stay; otherwise each becomes U+FFFD

  std::string operator()(std::string_view text) const;

 private:
  struct Part {
    std::string_view text;
    std::size_t length;  ///< bytes that it stands for
  };
  Part first_part(std::string_view text) const;
};

}  // namespace etna::data
