#include <etna/device/internal/graph/build_kernel.h>

#include <algorithm>

namespace etna::graph::fusion {
namespace {

constexpr std::uint32_t kI64 = 4, kI32 = 5;

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

/// Integers of all sizes, including bool.
bool holds_integers(std::uint32_t dtype) { return dtype >= kI32; }

class Builder {
 public:
  explicit Builder(std::uint32_t n) { kernel_.n = n; }

  bool add(const ElementwiseInfo& e) {
    if (e.n != kernel_.n || kernel_.through != nullptr) return false;
    Kernel::Step step{e.name, e.expression, e.integers, e.operands[0].dtype, {}};
    for (int k = 1; k <= e.arity; ++k) {
      auto operand = k == e.scalar_at ? scalar(e.scalar) : value(e.operands[static_cast<std::size_t>(k)], e.integers);
      if (!operand) return false;
      step.operands[static_cast<std::size_t>(k - 1)] = *operand;
    }
    const StridedView& result = e.operands[0];
    // When this element is stored, another element of an overlapping view may not have been loaded yet.
    for (const Kernel::Load& load : kernel_.loads) {
      if (load.view != result && overlap(load.view.range(), result.range())) return false;
    }
    auto index = static_cast<std::uint32_t>(kernel_.steps.size());
    auto at = std::find_if(kernel_.stores.begin(), kernel_.stores.end(),
                           [&](const Kernel::Store& s) { return s.view == result; });
    if (at != kernel_.stores.end()) {
      at->step = index;
    } else {
      if (overlaps_a_store(result)) return false;
      kernel_.stores.push_back({result, index});
    }
    kernel_.steps.push_back(step);
    return true;
  }

  bool add(const PrologueFusion& reduction, std::span<const MemoryRange> writes) {
    if (reduction.n != kernel_.n || !reduction.x.contiguous() || kernel_.steps.empty()) return false;
    // The reduction reads the last step's value; any other step after it would be computed for nobody.
    const Kernel::Store* at = find(reduction.x);
    if (at == nullptr || at->step + 1 != kernel_.steps.size()) return false;
    for (const Kernel::Load& load : kernel_.loads) {
      for (const MemoryRange& write : writes) {
        if (overlap(load.view.range(), write)) return false;
      }
    }
    read_.push_back(at->step);
    kernel_.through = &reduction;
    return true;
  }

  /// Drops the stores that nobody else reads.
  std::optional<Kernel> finish(std::span<const std::uint32_t> members, const DroppedStorages& dropped) {
    std::erase_if(kernel_.stores, [&](const Kernel::Store& s) {
      return std::find(read_.begin(), read_.end(), s.step) != read_.end() && !loads_from(s.view) &&
             dropped.private_to(s.view, members);
    });
    if (kernel_.through != nullptr && !kernel_.stores.empty()) return {};
    if (kernel_.steps.size() > kMostSteps || kernel_.loads.size() > kMostLoads || kernel_.stores.size() > kMostStores) {
      return {};
    }
    return std::move(kernel_);
  }

 private:
  const Kernel::Store* find(const StridedView& view) const {
    auto at = std::find_if(kernel_.stores.begin(), kernel_.stores.end(),
                           [&](const Kernel::Store& s) { return s.view == view; });
    return at == kernel_.stores.end() ? nullptr : &*at;
  }
  bool overlaps_a_store(const StridedView& view) const {
    return std::any_of(kernel_.stores.begin(), kernel_.stores.end(),
                       [&](const Kernel::Store& s) { return overlap(s.view.range(), view.range()); });
  }
  bool loads_from(const StridedView& view) const {
    return std::any_of(kernel_.loads.begin(), kernel_.loads.end(),
                       [&](const Kernel::Load& l) { return overlap(l.view.range(), view.range()); });
  }

  std::optional<Kernel::Operand> scalar(std::uint32_t bits) {
    kernel_.scalars.push_back(bits);
    return Kernel::Operand{Kernel::Operand::Kind::scalar, static_cast<std::uint32_t>(kernel_.scalars.size() - 1)};
  }

  /// What a member reads: an earlier member's value at the same position, or memory that none of them has written.
  std::optional<Kernel::Operand> value(const StridedView& view, bool integers) {
    if (const Kernel::Store* at = find(view)) {
      read_.push_back(at->step);
      return Kernel::Operand{Kernel::Operand::Kind::step, at->step};
    }
    if (overlaps_a_store(view)) return {};
    const Kernel::Load load{view, view.dtype == kI64 ? integers : holds_integers(view.dtype)};
    auto at = std::find(kernel_.loads.begin(), kernel_.loads.end(), load);
    auto index = static_cast<std::uint32_t>(at - kernel_.loads.begin());
    if (at == kernel_.loads.end()) kernel_.loads.push_back(load);
    return Kernel::Operand{Kernel::Operand::Kind::load, index};
  }

  Kernel kernel_;
  std::vector<std::uint32_t> read_;  ///< steps whose value a member reads
};

}  // namespace

DroppedStorages::DroppedStorages(std::span<const Candidate> commands, std::span<const MemoryRange> dropped)
    : ranges_(dropped.begin(), dropped.end()), touched_by_(dropped.size()) {
  for (std::uint32_t i = 0; i < commands.size(); ++i) {
    for (std::span<const MemoryRange> ranges : {commands[i].accesses.reads, commands[i].accesses.writes}) {
      for (const MemoryRange& range : ranges) {
        const std::size_t at = find(range);
        if (at < ranges_.size() && (touched_by_[at].empty() || touched_by_[at].back() != i))
          touched_by_[at].push_back(i);
      }
    }
  }
}

/// The storage that the range begins in; ranges_.size() if it is in none.
std::size_t DroppedStorages::find(const MemoryRange& range) const {
  if (range.bytes == 0) return ranges_.size();
  auto next = std::upper_bound(ranges_.begin(), ranges_.end(), range.address,
                               [](std::uint64_t at, const MemoryRange& r) { return at < r.address; });
  if (next == ranges_.begin()) return ranges_.size();
  --next;
  return range.address < next->address + next->bytes ? static_cast<std::size_t>(next - ranges_.begin())
                                                     : ranges_.size();
}

bool DroppedStorages::private_to(const StridedView& view, std::span<const std::uint32_t> members) const {
  const std::size_t at = find(view.range());
  return at < ranges_.size() &&
         std::includes(members.begin(), members.end(), touched_by_[at].begin(), touched_by_[at].end());
}

std::optional<Kernel> build_kernel(std::span<const Candidate> commands, std::span<const std::uint32_t> members,
                                   const DroppedStorages& dropped) {
  Builder builder(commands[members.front()].elementwise->n);
  for (std::uint32_t member : members) {
    const Candidate& c = commands[member];
    if (c.elementwise != nullptr ? !builder.add(*c.elementwise) : !builder.add(*c.through, c.accesses.writes))
      return {};
  }
  return builder.finish(members, dropped);
}

}  // namespace etna::graph::fusion
