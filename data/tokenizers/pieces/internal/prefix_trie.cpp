#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>

#include <algorithm>

namespace etna::data {
namespace {

/// A node with more children than this gets a table of 1 KiB, if it is one of the first ones: at most 4 MiB.
constexpr std::size_t kManyChildren = 6, kMostTables = 4096;

}  // namespace

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> strings) {
  strings.erase(std::remove_if(strings.begin(), strings.end(), [](const auto& entry) { return entry.first.empty(); }),
                strings.end());
  std::stable_sort(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  strings.erase(
      std::unique(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
      strings.end());
  // Breadth first: a node owns a range of the sorted strings that share `depth` bytes.
  struct Range {
    std::size_t begin, end, depth;
  };
  nodes_.emplace_back();
  labels_.push_back(0);
  std::vector<Range> ranges{{0, strings.size(), 0}};
  for (std::size_t node = 0; node < ranges.size(); ++node) {
    const Range range = ranges[node];
    std::size_t at = range.begin;
    if (at < range.end && strings[at].first.size() == range.depth) nodes_[node].id = strings[at++].second;
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (at < range.end) {
      const char label = strings[at].first[range.depth];
      std::size_t end = at + 1;
      while (end < range.end && strings[end].first[range.depth] == label) ++end;
      if (node == 0) roots_[static_cast<unsigned char>(label)] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      labels_.push_back(static_cast<std::uint8_t>(label));
      ranges.push_back({at, end, range.depth + 1});
      ++nodes_[node].children;
      at = end;
    }
    Node& parent = nodes_[node];
    if (node == 0 || parent.children <= kManyChildren || tables_.size() == kMostTables) continue;
    std::array<std::uint32_t, 256>& table = tables_.emplace_back();
    table.fill(0);
    for (std::uint32_t child = parent.first_child; child < nodes_.size(); ++child) table[labels_[child]] = child;
    parent.table = static_cast<std::uint16_t>(tables_.size());
  }
}

PrefixTrie::Longest PrefixTrie::longest(std::string_view text) const {
  Longest best;
  match(text, [&](std::size_t length, std::int32_t id) { best = {length, id}; });
  return best;
}

}  // namespace etna::data
