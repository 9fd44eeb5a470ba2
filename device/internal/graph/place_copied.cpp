#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/placeholder.h>

namespace etna {
namespace {

constexpr std::uint64_t kPlaceAlignment = 256;  ///< what kernels may expect of a storage

bool ranges_meet(const MemoryRange& a, const MemoryRange& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

/// How commands use a storage that nobody refers to any more.
struct CopiedUse {
  MemoryRange storage;
  std::size_t first = 0, last = 0;  ///< commands
  std::uint64_t end = 0;            ///< of all their ranges
  bool used = false;
};

/// From where to where a command copies whole bytes in order, if it does nothing else.
std::optional<std::pair<MemoryRange, MemoryRange>> copied(const graph::CommandList& list, const graph::Command& c) {
  if (std::holds_alternative<graph::CopyCommand>(c.work)) return std::pair{list.reads(c)[0], list.writes(c)[0]};
  const graph::FusionInfo* info = list.info(c);
  const auto* copy = info != nullptr ? std::get_if<gpu::ElementwiseInfo>(info) : nullptr;
  if (copy == nullptr || copy->arity != 1 || copy->scalar_at != 0 || std::string_view(copy->expression) != "a")
    return std::nullopt;
  const gpu::StridedView &to = copy->operands[0], &from = copy->operands[1];
  const auto whole = [&](const gpu::StridedView& x) {
    return x.rank == 1 && x.contiguous() && x.count() == copy->n && x.dtype == to.dtype;
  };
  if (!whole(to) || !whole(from)) return std::nullopt;
  return std::pair{from.range(), to.range()};
}

}  // namespace

/// Gives a storage whose only purpose is to be copied to memory from before the capture its place there, and leaves out
/// the copy: a gradient that belongs into an arena. Nothing may touch the place from the first use of the storage to
/// the copy, and nothing the storage behind it.
void Graph::place_copied() {
  std::vector<CopiedUse> uses;
  for (const MemoryRange& storage : storages_.dropped()) uses.push_back({.storage = storage});
  const auto use_of = [&](const MemoryRange& range) -> CopiedUse* {
    const auto next = std::upper_bound(uses.begin(), uses.end(), range.address,
                                       [](std::uint64_t at, const CopiedUse& u) { return at < u.storage.address; });
    if (next == uses.begin() || range.bytes == 0) return nullptr;
    CopiedUse& use = *std::prev(next);
    return range.address < use.storage.address + use.storage.bytes ? &use : nullptr;
  };
  for (std::size_t i = 0; i < list_.commands.size(); ++i) {
    for (const std::span<const MemoryRange> ranges :
         {list_.reads(list_.commands[i]), list_.writes(list_.commands[i])}) {
      for (const MemoryRange& range : ranges) {
        CopiedUse* use = use_of(range);
        if (use == nullptr) continue;
        if (!std::exchange(use->used, true)) use->first = i;
        use->last = i;
        use->end = std::max(use->end, range.address + range.bytes);
      }
    }
  }
  const auto touched = [&](const MemoryRange& place, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i)
      for (const std::span<const MemoryRange> ranges :
           {list_.reads(list_.commands[i]), list_.writes(list_.commands[i])})
        for (const MemoryRange& range : ranges)
          if (ranges_meet(range, place)) return true;
    return false;
  };
  std::vector<bool> left_out(list_.commands.size());
  for (std::size_t i = 0; i < list_.commands.size(); ++i) {
    const graph::Command& copy = list_.commands[i];
    const auto ranges = copied(list_, copy);
    if (!ranges) continue;
    const auto [from, to] = *ranges;
    const CopiedUse* use = use_of(from);
    if (use == nullptr || use->first == i || use->last != i || from.address != use->storage.address ||
        use->end > from.address + from.bytes || graph::is_placeholder(to.address) ||
        to.address % kPlaceAlignment != 0 || touched(to, use->first, i))
      continue;
    for (std::size_t k = use->first; k < i; ++k) {
      for (const graph::Slice slice : {list_.commands[k].reads, list_.commands[k].writes})
        for (MemoryRange& range : std::span(list_.ranges).subspan(slice.begin, slice.count))
          if (use_of(range) == use) range.address = to.address + (range.address - from.address);
    }
    storages_.place(from.address, to.address);
    left_out[i] = true;
  }
  std::size_t at = 0;
  std::erase_if(list_.commands, [&](const graph::Command&) { return left_out[at++]; });
}

}  // namespace etna
