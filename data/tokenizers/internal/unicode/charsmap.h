#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// SentencePiece's precompiled normalization rules: a double-array trie of strings, and what each becomes.
class Charsmap {
 public:
  Charsmap() = default;
  /// @param blob the rules; empty: none @throws FormatError for rules that are cut off or damaged
  Charsmap(std::string_view blob, const std::string& name);

  bool empty() const { return units_.empty(); }

  struct Rule {
    std::size_t length = 0;  ///< bytes that it replaces; 0: no rule
    std::string_view text;   ///< by what, valid as long as the rules
  };
  /// The rule for the most, or the fewest, bytes at the beginning of a text.
  Rule longest(std::string_view text) const { return find(text, true); }
  Rule shortest(std::string_view text) const { return find(text, false); }

 private:
  Rule find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  ///< each ends with NUL
};

}  // namespace etna::data
