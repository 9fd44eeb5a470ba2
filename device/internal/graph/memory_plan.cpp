#include <etna/device/internal/graph/memory_plan.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace etna::graph {
namespace {

constexpr std::size_t kMemoryPlanAlign = 256;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::size_t aligned(std::size_t bytes) { return (bytes + kMemoryPlanAlign - 1) / kMemoryPlanAlign * kMemoryPlanAlign; }

/// A block placed in a chunk; kept in order of offset.
struct Placed {
  std::size_t offset, bytes;
  std::uint32_t first, last;
};
using Chunk = std::vector<Placed>;

/// The tightest gap of at least `bytes` between the blocks alive at the same time, below `limit`; kNowhere if there is
/// none.
std::size_t find_gap(const Chunk& chunk, const Lifetime& wanted, std::size_t bytes, std::size_t limit) {
  std::size_t best = kNowhere, best_size = kNowhere, end = 0;
  for (const Placed& p : chunk) {
    if (p.last < wanted.first || wanted.last < p.first) continue;
    if (p.offset >= end + bytes && p.offset - end < best_size) {
      best = end;
      best_size = p.offset - end;
    }
    end = std::max(end, p.offset + p.bytes);
  }
  if (best == kNowhere && end + bytes <= limit) best = end;
  return best;
}

std::size_t most_at_once(std::span<const Lifetime> lifetimes) {
  std::map<std::uint32_t, std::ptrdiff_t> change;
  for (const Lifetime& l : lifetimes) {
    change[l.first] += static_cast<std::ptrdiff_t>(aligned(l.bytes));
    change[l.last + 1] -= static_cast<std::ptrdiff_t>(aligned(l.bytes));
  }
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [time, bytes] : change) most = std::max(most, now += bytes);
  return static_cast<std::size_t>(most);
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t largest_chunk) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan;
  plan.places.resize(lifetimes.size());
  std::vector<Chunk> chunks;
  for (std::size_t i : order) {
    const Lifetime& wanted = lifetimes[i];
    std::size_t bytes = std::max(aligned(wanted.bytes), kMemoryPlanAlign);
    plan.naive += bytes;
    std::size_t c = 0, offset = kNowhere;
    for (; c < chunks.size(); ++c) {
      if (offset = find_gap(chunks[c], wanted, bytes, largest_chunk); offset != kNowhere) break;
    }
    if (offset == kNowhere) {
      offset = 0;
      chunks.emplace_back();
      plan.chunks.push_back(0);
    }
    Placed placed{offset, bytes, wanted.first, wanted.last};
    auto behind = std::upper_bound(chunks[c].begin(), chunks[c].end(), offset,
                                   [](std::size_t at, const Placed& p) { return at < p.offset; });
    chunks[c].insert(behind, placed);
    plan.chunks[c] = std::max(plan.chunks[c], offset + bytes);
    plan.places[i] = {static_cast<std::uint32_t>(c), offset};
  }
  plan.planned = std::accumulate(plan.chunks.begin(), plan.chunks.end(), std::size_t{0});
  plan.live = most_at_once(lifetimes);
  return plan;
}

}  // namespace etna::graph
