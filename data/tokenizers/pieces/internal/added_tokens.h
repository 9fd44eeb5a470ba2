#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>

namespace etna::data {

/// A token that is looked for in a text before anything else is done to it.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;      ///< looked for only if the caller wants it
  bool single_word = false;  ///< only where no letter, mark, digit or underscore stands beside it
  bool strip_left = false;   ///< takes the white space before it along
  bool strip_right = false;  ///< and after it
  bool normalized = false;   ///< looked for in normalized text
};

/// Cuts texts at added tokens: the first one, and of those that begin at one place the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;  ///< begins and ends, in order

  /// Calls on_text for what lies between tokens, if it is not empty, and on_token for them, in order.
  /// @param special whether special tokens are looked for too @param markup where they are looked for in any case
  void split(std::string_view text, bool special, const std::function<void(std::string_view)>& on_text,
             const std::function<void(std::int32_t)>& on_token, const Ranges* markup = nullptr) const;

  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;
  PrefixTrie all_, ordinary_;  ///< with indices into tokens_; the second without the special ones
};

}  // namespace etna::data
