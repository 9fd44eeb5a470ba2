#include <etna/device/internal/graph/schedule.h>

#include <algorithm>

namespace etna::graph {
namespace {

/// Ranges of memory that no access crosses, so that conflicts need to be searched within one of them only.
class Blocks {
 public:
  explicit Blocks(std::span<const Accesses> commands) {
    std::vector<MemoryRange> all;
    for (const Accesses& c : commands) {
      all.insert(all.end(), c.reads.begin(), c.reads.end());
      all.insert(all.end(), c.writes.begin(), c.writes.end());
    }
    std::erase_if(all, [](const MemoryRange& r) { return r.bytes == 0; });
    std::sort(all.begin(), all.end(), [](const MemoryRange& a, const MemoryRange& b) { return a.address < b.address; });
    std::uint64_t end = 0;
    for (const MemoryRange& r : all) {
      if (begins_.empty() || r.address >= end) begins_.push_back(r.address);
      end = std::max(end, r.address + r.bytes);
    }
  }
  std::size_t count() const { return begins_.size(); }
  std::size_t of(const MemoryRange& r) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), r.address) - begins_.begin()) - 1;
  }

 private:
  std::vector<std::uint64_t> begins_;
};

struct Past {
  MemoryRange range;
  std::uint32_t command;
  bool write;
};

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

}  // namespace

bool conflict(const Accesses& a, const Accesses& b) {
  const auto meet = [](std::span<const MemoryRange> as, std::span<const MemoryRange> bs) {
    return std::any_of(as.begin(), as.end(), [&](const MemoryRange& x) {
      return std::any_of(bs.begin(), bs.end(), [&](const MemoryRange& y) { return overlap(x, y); });
    });
  };
  return meet(a.writes, b.reads) || meet(a.writes, b.writes) || meet(a.reads, b.writes);
}

std::vector<std::vector<std::uint32_t>> dependencies(std::span<const Accesses> commands) {
  Blocks blocks(commands);
  std::vector<std::vector<Past>> past(blocks.count());
  std::vector<std::vector<std::uint32_t>> all;
  for (const Accesses& command : commands) {
    std::vector<std::uint32_t> before;
    auto wait_for = [&](const MemoryRange& range, bool write) {
      if (range.bytes == 0) return;
      for (const Past& p : past[blocks.of(range)]) {
        if ((write || p.write) && overlap(p.range, range)) before.push_back(p.command);
      }
    };
    for (const MemoryRange& r : command.reads) wait_for(r, false);
    for (const MemoryRange& r : command.writes) wait_for(r, true);
    auto note = [&](const MemoryRange& range, bool write) {
      if (range.bytes == 0) return;
      std::vector<Past>& list = past[blocks.of(range)];
      // Accesses that a write covers completely need no dependency any more: later commands wait for the write.
      if (write) {
        std::erase_if(list, [&](const Past& p) {
          return p.range.address >= range.address && p.range.address + p.range.bytes <= range.address + range.bytes;
        });
      }
      list.push_back({range, static_cast<std::uint32_t>(all.size()), write});
    };
    for (const MemoryRange& r : command.reads) note(r, false);
    for (const MemoryRange& r : command.writes) note(r, true);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    all.push_back(std::move(before));
  }
  return all;
}

std::vector<std::uint32_t> group_commands(std::span<const Accesses> commands, std::uint32_t reach) {
  std::vector<std::uint32_t> groups, lines;
  std::uint32_t last = 0;
  for (const std::vector<std::uint32_t>& before : dependencies(commands)) {
    std::uint32_t group = last > reach ? last - reach : 0;
    for (std::uint32_t p : before) group = std::max({group, groups[p] + 1, commands[p].line >= 0 ? last : 0});
    if (const int line = commands[groups.size()].line; line >= 0) {
      if (lines.size() <= static_cast<std::size_t>(line)) lines.resize(static_cast<std::size_t>(line) + 1, 0);
      std::uint32_t& least = lines[static_cast<std::size_t>(line)];
      least = group = std::max(group, least);
    }
    groups.push_back(group);
    last = std::max(last, group);
  }
  return groups;
}

}  // namespace etna::graph
