#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace etna::data {

/// Finds the strings of a set that are prefixes of a text. Built once from sorted strings; the children of a node are
/// contiguous.
class PrefixTrie {
 public:
  PrefixTrie() = default;
  /// Strings with their ids. Empty strings are ignored; the first of equal strings wins.
  explicit PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> strings);

  bool empty() const { return nodes_.size() <= 1; }

  /// Calls found(length, id) for each string that is a prefix of text, shortest first.
  template <typename Found>
  void match(std::string_view text, Found&& found) const {
    if (empty()) return;
    std::size_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      if (nodes_[node].id >= 0) found(at + 1, nodes_[node].id);
    }
  }

  struct Longest {
    std::size_t length = 0;  ///< 0: none
    std::int32_t id = -1;
  };
  Longest longest(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::int32_t id = -1;
    std::uint16_t children = 0;
    std::uint8_t label = 0;
  };

  std::size_t child(std::size_t node, unsigned char label) const;

  std::vector<Node> nodes_;
  std::uint32_t roots_[256] = {};  ///< children of the root by label; 0: none
};

}  // namespace etna::data
