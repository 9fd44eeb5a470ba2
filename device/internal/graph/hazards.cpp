#include <etna/device/internal/graph/hazards.h>

#include <algorithm>

namespace etna::graph {

void RangeSet::insert(MemoryRange range) {
  if (range.bytes == 0) return;
  Span span{range.address, range.address + range.bytes};
  // The first span that ends at or after our begin. It and all up to the first that begins after our end are merged
  // with ours.
  auto first = std::lower_bound(spans_.begin(), spans_.end(), span.begin,
                                [](const Span& s, std::uint64_t begin) { return s.end < begin; });
  auto last = first;
  while (last != spans_.end() && last->begin <= span.end) {
    span.begin = std::min(span.begin, last->begin);
    span.end = std::max(span.end, last->end);
    ++last;
  }
  if (first == last) {
    spans_.insert(first, span);
    if (spans_.size() > capacity_) halve();
  } else {
    *first = span;
    spans_.erase(first + 1, last);
  }
}

void RangeSet::halve() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < spans_.size(); i += 2) {
    std::size_t last = std::min(i + 1, spans_.size() - 1);
    spans_[kept++] = {spans_[i].begin, spans_[last].end};
  }
  spans_.resize(kept);
}

bool RangeSet::overlaps(MemoryRange range) const {
  if (range.bytes == 0) return false;
  auto found = std::upper_bound(spans_.begin(), spans_.end(), range.address,
                                [](std::uint64_t begin, const Span& s) { return begin < s.end; });
  return found != spans_.end() && found->begin < range.address + range.bytes;
}

bool RangeSet::overlaps_any(std::span<const MemoryRange> ranges) const {
  return std::any_of(ranges.begin(), ranges.end(), [this](MemoryRange r) { return overlaps(r); });
}

void Hazards::Since::add(Stage stage, std::span<const MemoryRange> r, std::span<const MemoryRange> w) {
  for (MemoryRange range : r) reads.insert(range);
  for (MemoryRange range : w) writes.insert(range);
  stages |= stage;
}

bool Hazards::Since::clashes(std::span<const MemoryRange> r, std::span<const MemoryRange> w) const {
  return writes.overlaps_any(r) || writes.overlaps_any(w) || reads.overlaps_any(w);
}

void Hazards::Since::clear() {
  reads.clear();
  writes.clear();
  stages = 0;
}

Barrier Hazards::access(Stage stage, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes) {
  Barrier barrier;
  const Since& since = stage == kCompute ? compute_ : transfer_;
  if (fenced_) {
    fenced_ = false;
    barrier = {kCompute | kTransfer, kCompute | kTransfer};
    compute_.clear();
    transfer_.clear();
  } else if (since.clashes(reads, writes)) {
    barrier = {compute_.stages | transfer_.stages, kCompute | kTransfer};
    if (stage == kCompute && compute_.stages == kCompute) {
      // The common case, and the cheap barrier.
      barrier = {kCompute, kCompute};
    } else {
      transfer_.clear();
    }
    compute_.clear();
  }
  compute_.add(stage, reads, writes);
  transfer_.add(stage, reads, writes);
  return barrier;
}

}  // namespace etna::graph
