#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace etna::data {

/// Counts words as BpeTokenizer splits them. BpeTokenizer::train() learns from the counts, so the whole text need not
/// be in memory at once.
class WordCounts {
 public:
  /// @param except special tokens: they are not counted, and they end a word
  explicit WordCounts(std::vector<std::string> except = {});

  /// Counts the words of a text on all cores. A larger text may be given in several calls, split as TextBlocks does.
  void add(std::string_view text);

  /// Takes views, so that a lookup copies no word.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  using Counts = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;
  const Counts& counts() const { return counts_; }

 private:
  using Views = std::unordered_map<std::string_view, std::int64_t>;
  void count(std::string_view text, std::size_t first_except, Views& counts) const;

  std::vector<std::string> except_;
  Counts counts_;
};

}  // namespace etna::data
