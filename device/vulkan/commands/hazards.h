#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/vulkan/api/types.h>

/// When a barrier must stand between two commands. Pure bookkeeping: knows nothing of Vulkan.
namespace etna::vulkan {

/// Disjoint byte ranges in order of address; touching ones are joined. Past its capacity, neighbours are joined over
/// the gap between them: the set then covers more than was put in, which can only cost a barrier too many.
class RangeSet {
 public:
  explicit RangeSet(std::size_t capacity = 128) : capacity_(capacity) {}
  void insert(Range range);
  bool overlaps(Range range) const;
  bool overlaps_any(std::span<const Range> ranges) const;
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

/// What does the work: a compute shader or the transfer stage. Bits, since a barrier can wait for both.
enum Stage : unsigned { kCompute = 1, kTransfer = 2 };

/// The stages before and behind a barrier; none where no barrier is needed.
struct Barrier {
  unsigned before = 0, behind = 0;
  explicit operator bool() const { return before != 0; }
};

/// The accesses since the last barrier, kept once for each stage that may come next: a compute→compute barrier says
/// nothing to a copy that follows it, so the copy must still see what was written before that barrier.
class Hazards {
 public:
  /// The barrier that must stand before this access, if any; then notes the access.
  Barrier access(Stage stage, std::span<const Range> reads, std::span<const Range> writes);
  /// What comes next must wait for everything: commands went to the device that were not told of here.
  void fence() { fenced_ = true; }

 private:
  struct Since {
    RangeSet reads, writes;
    unsigned stages = 0;
    void add(Stage stage, std::span<const Range> r, std::span<const Range> w);
    bool clashes(std::span<const Range> r, std::span<const Range> w) const;
    void clear();
  };
  Since compute_, transfer_;
  bool fenced_ = false;
};

}  // namespace etna::vulkan
