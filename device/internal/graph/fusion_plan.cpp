#include <etna/device/internal/graph/fusion_plan.h>

#include <algorithm>

#include <etna/device/internal/graph/build_kernel.h>

namespace etna::graph::fusion {
namespace {

/// Commands further apart are not fused: searching the commands between them takes time.
constexpr std::uint32_t kReach = 1000;

using Members = std::vector<std::uint32_t>;

class Planner {
 public:
  Planner(std::span<const Candidate> commands, std::span<const MemoryRange> dropped)
      : commands_(commands), dropped_(commands, dropped), unit_(commands.size()), followers_(commands.size()) {
    std::vector<Accesses> accesses;
    for (const Candidate& c : commands) accesses.push_back(c.accesses);
    before_ = dependencies(accesses);
    for (std::uint32_t i = 0; i < commands.size(); ++i) {
      unit_[i] = i;
      units_.push_back({{i}, {}});
      for (std::uint32_t p : before_[i]) followers_[p].push_back(i);
    }
  }

  Plan run() {
    // In order, so that no unit extends beyond the current command.
    for (std::uint32_t i = 0; i < commands_.size(); ++i) {
      if (const ElementwiseInfo* e = commands_[i].elementwise) join_producers(i, *e);
      if (const PrologueFusion* r = commands_[i].through) try_join(units_[i].members, producer(i, r->x));
    }
    Plan plan;
    for (std::uint32_t i = 0; i < commands_.size(); ++i) {
      // As late as possible; units that others read are emitted earlier on demand.
      if (i == units_[unit_[i]].members.back()) emit(unit_[i], plan);
    }
    return plan;
  }

 private:
  static constexpr std::uint32_t kNobody = ~0u;

  /// The elementwise command whose result `reader` reads through this view.
  std::uint32_t producer(std::uint32_t reader, const StridedView& view) const {
    for (auto p = before_[reader].rbegin(); p != before_[reader].rend(); ++p) {
      const ElementwiseInfo* e = commands_[*p].elementwise;
      if (e != nullptr && e->operands[0] == view) return *p;
    }
    return kNobody;
  }

  void join_producers(std::uint32_t i, const ElementwiseInfo& e) {
    Members producers;
    for (int k = 1; k <= e.arity; ++k) {
      if (k == e.scalar_at) continue;
      if (std::uint32_t p = producer(i, e.operands[static_cast<std::size_t>(k)]); p != kNobody) producers.push_back(p);
    }
    // The nearest first: if the whole becomes too large, distant ones are worth least.
    std::sort(producers.rbegin(), producers.rend());
    for (std::uint32_t p : producers) try_join(units_[unit_[i]].members, p);
  }

  void try_join(const Members& late, std::uint32_t early) {
    if (early == kNobody || unit_[early] == unit_[late.front()]) return;
    const Members& first = units_[unit_[early]].members;
    Members both;
    std::merge(first.begin(), first.end(), late.begin(), late.end(), std::back_inserter(both));
    if (both.size() > kMostSteps + 1 || both.back() - both.front() > kReach || leaves_and_comes_back(both)) return;
    std::optional<Kernel> kernel = build_kernel(commands_, both, dropped_);
    if (!kernel) return;
    const std::uint32_t home = both.front();
    for (std::uint32_t member : both) unit_[member] = home;
    units_[home] = {std::move(both), std::move(*kernel)};
  }

  /// True if a command outside must run after one member and before another. Commands of another unit count as one, so
  /// that no two units ever wait for each other.
  bool leaves_and_comes_back(const Members& members) const {
    const std::uint32_t last = members.back();
    std::vector<bool> seen(last + 1, false);
    std::vector<std::uint32_t> open;
    auto inside = [&](std::uint32_t i) { return std::binary_search(members.begin(), members.end(), i); };
    bool back = false;
    auto follow = [&](std::uint32_t i, bool from_inside) {
      for (std::uint32_t next : followers_[i]) {
        if (next > last) break;
        if (inside(next)) {
          back = back || !from_inside;
        } else if (!seen[next]) {
          seen[next] = true;
          open.push_back(next);
        }
      }
    };
    for (std::uint32_t member : members) follow(member, true);
    while (!open.empty() && !back) {
      const std::uint32_t i = open.back();
      open.pop_back();
      for (std::uint32_t other : units_[unit_[i]].members) follow(other, false);
    }
    return back;
  }

  void emit(std::uint32_t unit, Plan& plan) {
    if (emitted_.empty()) emitted_.resize(commands_.size(), false);
    if (emitted_[unit]) return;
    emitted_[unit] = true;
    for (std::uint32_t member : units_[unit].members) {
      for (std::uint32_t p : before_[member]) emit(unit_[p], plan);
    }
    plan.units.push_back(units_[unit]);
  }

  std::span<const Candidate> commands_;
  DroppedStorages dropped_;
  std::vector<std::uint32_t> unit_;  ///< per command: its first member
  std::vector<Plan::Unit> units_;    ///< keyed by first member
  std::vector<std::vector<std::uint32_t>> before_, followers_;
  std::vector<bool> emitted_;
};

}  // namespace

Plan plan(std::span<const Candidate> commands, std::span<const MemoryRange> dropped) {
  return Planner(commands, dropped).run();
}

}  // namespace etna::graph::fusion
