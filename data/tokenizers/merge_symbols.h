#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace etna::data {

/// A stretch of a word that is one token, or none yet.
struct MergeSymbol {
  std::size_t begin, end;
  std::int32_t id;  ///< -1: no token
};

/// Joins neighbours until no pair may be joined: the pair of the lowest cost first, of equal ones the leftmost. n log n.
/// @param join (left, right, double& cost) -> id of both together, or -1
template <typename Join>
void merge_symbols(std::vector<MergeSymbol>& symbols, Join&& join) {
  struct Candidate {
    double cost;
    std::size_t left, right;  ///< indices
    std::size_t middle, end;  ///< where the two ended when they were offered
    std::int32_t id;
    bool operator<(const Candidate& other) const { return cost != other.cost ? cost > other.cost : left > other.left; }
  };
  constexpr std::size_t kNone = SIZE_MAX;
  struct Link {
    std::size_t before, after;
  };
  const std::size_t count = symbols.size();
  std::vector<Link> links(count);
  std::vector<Candidate> storage;
  storage.reserve(count);
  std::priority_queue<Candidate> heap(std::less<Candidate>(), std::move(storage));
  const auto offer = [&](std::size_t left) {
    if (left == kNone || links[left].after == kNone) return;
    const std::size_t right = links[left].after;
    double cost = 0;
    const std::int32_t id = join(symbols[left], symbols[right], cost);
    if (id >= 0) heap.push({cost, left, right, symbols[left].end, symbols[right].end, id});
  };
  for (std::size_t i = 0; i < count; ++i) links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (std::size_t i = 0; i < count; ++i) offer(i);
  std::vector<bool> gone(count, false);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    if (gone[top.left] || gone[top.right] || symbols[top.left].end != top.middle || symbols[top.right].end != top.end)
      continue;
    symbols[top.left].end = top.end;
    symbols[top.left].id = top.id;
    gone[top.right] = true;
    links[top.left].after = links[top.right].after;
    if (links[top.left].after != kNone) links[links[top.left].after].before = top.left;
    offer(links[top.left].before);
    offer(top.left);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!gone[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace etna::data
