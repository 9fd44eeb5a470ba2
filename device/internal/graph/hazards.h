#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/arguments.h>

/// Decides when a barrier is needed between two commands. Pure bookkeeping, the same for every backend.
namespace etna::graph {

/// Disjoint byte ranges in order of address; adjacent ones are merged. Beyond its capacity the set merges neighbours
/// across the gap between them: it then covers more than was added, which can only cost an unneeded barrier.
class RangeSet {
 public:
  explicit RangeSet(std::size_t capacity = 128) : capacity_(capacity) {}
  void insert(MemoryRange range);
  bool overlaps(MemoryRange range) const;
  bool overlaps_any(std::span<const MemoryRange> ranges) const;
  void clear() { spans_.clear(); }
  std::size_t size() const { return spans_.size(); }

 private:
  struct Span {
    std::uint64_t begin, end;
  };
  void halve();

  std::size_t capacity_;
  std::vector<Span> spans_;
};

/// The pipeline stage that does the work: compute shader or transfer. Bits, since a barrier can wait for both.
enum Stage : unsigned { kCompute = 1, kTransfer = 2 };

/// The stages before and after a barrier; zero where no barrier is needed.
struct Barrier {
  unsigned before = 0, behind = 0;
  explicit operator bool() const { return before != 0; }
};

/// The accesses since the last barrier, kept separately for each stage that may come next. A compute→compute barrier
/// does not cover a copy that follows it, so the copy must still see what was written before that barrier.
class Hazards {
 public:
  /// Returns the barrier that must precede this access, if any, then notes the access.
  Barrier access(Stage stage, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes);
  /// The next access must wait for everything: commands went to the device that were not reported here.
  void fence() { fenced_ = true; }

 private:
  struct Since {
    RangeSet reads, writes;
    unsigned stages = 0;
    void add(Stage stage, std::span<const MemoryRange> r, std::span<const MemoryRange> w);
    bool clashes(std::span<const MemoryRange> r, std::span<const MemoryRange> w) const;
    void clear();
  };
  Since compute_, transfer_;
  bool fenced_ = false;
};

}  // namespace etna::graph
