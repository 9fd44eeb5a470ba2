#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// SentencePiece's precompiled normalization rules: a double-array trie of strings and their replacements.
class Charsmap {
 public:
  Charsmap() = default;
  /// @param blob the rules; empty: none @throws FormatError for truncated or damaged rules
  Charsmap(std::string_view blob, const std::string& name);

  bool empty() const { return units_.empty(); }

  struct Rule {
    std::size_t length = 0;  ///< number of bytes to replace; 0: no rule
    std::string_view text;   ///< the replacement, valid as long as the Charsmap
  };
  /// The rule that matches the longest, or the shortest, prefix of a text.
  Rule longest(std::string_view text) const { return find(text, true); }
  Rule shortest(std::string_view text) const { return find(text, false); }

 private:
  Rule find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  ///< each ends with NUL
};

}  // namespace etna::data
