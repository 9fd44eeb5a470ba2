#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>

namespace etna::data {

/// A token that is searched for in a text before normalization and pre-tokenization.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;      ///< recognized only if the caller asks for it
  bool single_word = false;  ///< only matches next to no letter, mark, digit or underscore
  bool strip_left = false;   ///< also consumes the white space before it
  bool strip_right = false;  ///< also consumes the white space after it
  bool normalized = false;   ///< searched for in normalized text
};

/// Splits texts at added tokens. The leftmost match wins, and the longest of those that begin at the same place.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;  ///< begins and ends, in order

  /// Calls on_token for each token and on_text for the non-empty text between them, in order.
  /// @param special whether to recognize special tokens @param markup ranges in which they are always recognized
  void split(std::string_view text, bool special, const std::function<void(std::string_view)>& on_text,
             const std::function<void(std::int32_t)>& on_token, const Ranges* markup = nullptr) const;

  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;
  PrefixTrie all_, ordinary_;  ///< indices into tokens_; ordinary_ lacks the special tokens
};

}  // namespace etna::data
