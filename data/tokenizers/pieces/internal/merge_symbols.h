#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace etna::data {

/// A part of a word that is one token, or not yet a token.
struct MergeSymbol {
  std::uint32_t begin, end;
  std::int32_t id;  ///< -1: no token
};

/// The longest word that can be merged, in bytes; positions have 32 bits to keep the heap small.
constexpr std::size_t kLongestWord = UINT32_MAX - 1;

/// Merges neighbours until no pair can be merged, in n log n: the pair with the lowest cost first, the leftmost of
/// equal ones.
/// @param join (left, right, double& cost) -> id of the merged symbol, or -1
template <typename Join>
void merge_symbols(std::vector<MergeSymbol>& symbols, Join&& join) {
  struct Candidate {
    double cost;
    std::uint32_t left, right;  ///< indices
    std::uint32_t end;          ///< end of the right symbol when the pair was pushed
    std::int32_t id;
    bool operator<(const Candidate& other) const { return cost != other.cost ? cost > other.cost : left > other.left; }
  };
  constexpr std::uint32_t kNone = UINT32_MAX;
  struct Link {
    std::uint32_t before, after;
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  std::vector<Link> links(count);
  std::vector<Candidate> storage;
  storage.reserve(count);
  std::priority_queue<Candidate> heap(std::less<Candidate>(), std::move(storage));
  const auto offer = [&](std::uint32_t left) {
    if (left == kNone || links[left].after == kNone) return;
    const std::uint32_t right = links[left].after;
    double cost = 0;
    const std::int32_t id = join(symbols[left], symbols[right], cost);
    if (id >= 0) heap.push({cost, left, right, symbols[right].end, id});
  };
  for (std::uint32_t i = 0; i < count; ++i) links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (std::uint32_t i = 0; i < count; ++i) offer(i);
  std::vector<bool> gone(count, false);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    // As long as the right symbol exists, it begins at the end of the left one.
    if (gone[top.left] || gone[top.right] || symbols[top.right].end != top.end) continue;
    symbols[top.left].end = top.end;
    symbols[top.left].id = top.id;
    gone[top.right] = true;
    links[top.left].after = links[top.right].after;
    if (links[top.left].after != kNone) links[links[top.left].after].before = top.left;
    offer(links[top.left].before);
    offer(top.left);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!gone[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace etna::data
