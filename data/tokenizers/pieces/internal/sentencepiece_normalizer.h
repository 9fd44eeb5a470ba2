#pragma once

#include <string>
#include <string_view>

#include <etna/data/tokenizers/internal/unicode/charsmap.h>
#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>

namespace etna::data {

/// SentencePiece's normalizer: applies character rules, collapses runs of spaces, prepends a space to the first word
/// and replaces every space by U+2581.
struct SentencePieceNormalizer {
  Charsmap rules;
  PrefixTrie user_defined;  ///< not normalized
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
  bool keep_invalid = false;  ///< keep bytes that are not UTF-8; otherwise each becomes U+FFFD

  std::string operator()(std::string_view text) const;

 private:
  struct Part {
    std::string_view text;
    std::size_t length;  ///< bytes of the original text
  };
  Part first_part(std::string_view text) const;
};

}  // namespace etna::data
