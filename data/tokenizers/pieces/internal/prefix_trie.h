#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
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
  /// Whether a string begins with this byte.
  bool has_first(char byte) const { return roots_[static_cast<unsigned char>(byte)] != 0; }

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
    std::uint16_t table = 0;  ///< index in tables_ plus one; 0: none
  };

  std::size_t child(std::size_t node, unsigned char label) const {
    if (node == 0) return roots_[label];
    const Node& parent = nodes_[node];
    if (parent.table != 0) return tables_[parent.table - 1u][label];
    const auto begin = labels_.begin() + parent.first_child, end = begin + parent.children;
    const auto found = std::lower_bound(begin, end, label);
    return found == end || *found != label ? 0 : static_cast<std::size_t>(found - labels_.begin());
  }

  std::vector<Node> nodes_;
  std::vector<std::uint8_t> labels_;                    ///< of the edge to each node
  std::vector<std::array<std::uint32_t, 256>> tables_;  ///< children by label, of the first nodes that have many
  std::uint32_t roots_[256] = {};                       ///< children of the root by label; 0: none
};

}  // namespace etna::data
