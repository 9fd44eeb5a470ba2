#include <algorithm>
#include <deque>
#include <string>

#include <gtest/gtest.h>

#include <etna/device/internal/graph/fusion_plan.h>

namespace etna::graph::fusion {
namespace {

constexpr std::uint32_t kF32 = 1, kElements = 64;

/// Commands over storages named by letters, each of 64 f32.
class Commands {
 public:
  static StridedView at(char storage, std::uint32_t stride = 1) {
    const std::uint32_t n = kElements;
    return {0x10000u * static_cast<std::uint32_t>(storage), kF32, {&n, 1}, {&stride, 1}};
  }

  /// result = row(operands...)
  void elementwise(char result, const std::string& operands) {
    std::vector<StridedView> walks;
    for (char o : operands) walks.push_back(at(o));
    elementwise(at(result), walks);
  }
  void elementwise(const StridedView& result, const std::vector<StridedView>& operands) {
    ElementwiseInfo& e = elementwise_.emplace_back();
    e.name = e.expression = "a";
    e.n = kElements;
    e.arity = static_cast<int>(operands.size());
    e.operands[0] = result;
    std::copy(operands.begin(), operands.end(), e.operands.begin() + 1);
    Touched& t = touched_.emplace_back();
    for (const StridedView& w : operands) t.reads.push_back(w.range());
    t.writes.push_back(result.range());
    meanings_.push_back(&e);
  }
  void other(char result, const std::string& operands) {
    Touched& t = touched_.emplace_back();
    for (char o : operands) t.reads.push_back(at(o).range());
    t.writes.push_back(at(result).range());
    meanings_.push_back(nullptr);
  }

  Plan plan(const std::string& dropped = "") const {
    std::vector<Candidate> commands;
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      commands.push_back({{touched_[i].reads, touched_[i].writes}, meanings_[i], nullptr});
    }
    std::vector<MemoryRange> ranges;
    for (char d : dropped) ranges.push_back(at(d).range());
    return fusion::plan(commands, ranges);
  }

  /// "01 2": commands 0 and 1 form one kernel, 2 follows it
  std::string order(const std::string& dropped = "") const {
    std::string text;
    for (const Plan::Unit& unit : plan(dropped).units) {
      if (!text.empty()) text += ' ';
      for (std::uint32_t member : unit.members) text += static_cast<char>('0' + member);
    }
    return text;
  }

 private:
  struct Touched {
    std::vector<MemoryRange> reads, writes;
  };
  std::deque<ElementwiseInfo> elementwise_;
  std::deque<Touched> touched_;
  std::vector<const ElementwiseInfo*> meanings_;
};

TEST(FusionPlan, JoinsAReaderWithWhatItReads) {
  Commands p;
  p.elementwise('b', "a");
  p.elementwise('c', "b");
  p.elementwise('d', "a");  // shares an operand only
  EXPECT_EQ(p.order(), "01 2");
}

TEST(FusionPlan, StoresWhatIsNotDroppedOrReadByOthers) {
  Commands p;
  p.elementwise('b', "a");
  p.elementwise('c', "b");
  p.elementwise('d', "c");
  EXPECT_EQ(p.plan("bcd").units[0].kernel.stores.size(), 1u) << "what nobody reads is what was asked for";
  EXPECT_EQ(p.plan("bd").units[0].kernel.stores.size(), 2u);
  p.other('e', "b");
  EXPECT_EQ(p.plan("bc").units[0].kernel.stores.size(), 2u);
}

TEST(FusionPlan, NothingOutsideComesBetween) {
  Commands p;
  p.elementwise('b', "a");
  p.other('c', "b");
  p.elementwise('d', "bc");
  EXPECT_EQ(p.order(), "0 1 2") << "1 must run behind 0 and before 2";
}

TEST(FusionPlan, OthersMoveWhereTheyAreFree) {
  Commands p;
  p.elementwise('b', "a");
  p.other('x', "b");  // must follow the kernel
  p.other('y', "z");
  p.elementwise('c', "b");
  EXPECT_EQ(p.order(), "03 1 2");
}

TEST(FusionPlan, AWriteBetweenKeepsItsPlace) {
  Commands p;
  p.elementwise('b', "a");
  p.other('a', "x");  // overwrites what 0 reads
  p.elementwise('c', "ba");
  EXPECT_EQ(p.order(), "0 1 2");
  Commands q;
  q.elementwise('b', "a");
  q.other('a', "x");
  q.elementwise('c', "b");
  EXPECT_EQ(q.order(), "02 1") << "the kernel runs before that write";
}

TEST(FusionPlan, TwoKernelsNeverWaitForEachOther) {
  // 0 and 3 would be one kernel, 1 and 2 another; 1 reads 0, and 3 reads 2.
  Commands p;
  p.elementwise('b', "a");
  p.other('t', "b");
  p.elementwise('c', "t");
  p.elementwise('d', "u");
  p.elementwise('e', "cd");
  p.other('v', "d");
  p.elementwise('f', "bv");
  p.elementwise('g', "fe");
  std::vector<std::uint32_t> seen;
  for (const Plan::Unit& unit : p.plan().units) seen.insert(seen.end(), unit.members.begin(), unit.members.end());
  EXPECT_EQ(seen.size(), 8u);
  auto place = [&](std::uint32_t c) { return std::find(seen.begin(), seen.end(), c) - seen.begin(); };
  EXPECT_LT(place(0), place(1));
  EXPECT_LT(place(1), place(2));
  EXPECT_LT(place(3), place(5));
  EXPECT_LT(place(5), place(6));
}

TEST(FusionPlan, ReadsInPlaceResultsInOrder) {
  Commands p;
  p.elementwise('b', "a");
  p.elementwise('b', "bc");  // in place
  p.elementwise('d', "b");
  const Plan plan = p.plan("b");
  ASSERT_EQ(plan.units.size(), 1u);
  const Kernel& k = plan.units[0].kernel;
  EXPECT_EQ(k.loads.size(), 2u);
  EXPECT_EQ(k.stores.size(), 1u);
  EXPECT_EQ(k.steps[2].operands[0].index, 1u) << "the later of two values";
}

TEST(FusionPlan, OtherPlacesOfAResultAreNotForwarded) {
  Commands p;
  p.elementwise(Commands::at('b'), {Commands::at('a')});
  p.elementwise(Commands::at('c'), {Commands::at('b', 0)});
  EXPECT_EQ(p.order(), "0 1");
  Commands q;
  q.elementwise(Commands::at('b'), {Commands::at('a', 0), Commands::at('c')});
  q.elementwise(Commands::at('a'), {Commands::at('b')});  // another thread may still load a's first element
  EXPECT_EQ(q.order(), "0 1");
}

TEST(FusionPlan, LongChainsAreCut) {
  Commands p;
  p.elementwise('b', "a");
  for (std::size_t i = 1; i < 3 * kMostSteps; ++i) p.elementwise(i % 2 != 0 ? 'c' : 'b', i % 2 != 0 ? "b" : "c");
  const Plan plan = p.plan("bc");
  EXPECT_GE(plan.units.size(), 3u);
  EXPECT_LE(plan.units.size(), 5u);
  for (const Plan::Unit& unit : plan.units) EXPECT_LE(unit.kernel.steps.size(), kMostSteps);
}

TEST(FusionWalk, MergesWhatLiesBehindEachOther) {
  const std::uint32_t sizes[] = {2, 3, 1, 4}, rows[] = {12, 4, 7, 1}, turned[] = {1, 8, 7, 2}, one[] = {0, 0, 0, 0};
  EXPECT_TRUE(StridedView(256, kF32, sizes, rows).contiguous());
  const std::uint32_t all[] = {24}, side_by_side[] = {1};
  EXPECT_EQ(StridedView(256, kF32, sizes, rows), StridedView(256, kF32, all, side_by_side));
  EXPECT_EQ(StridedView(256, kF32, sizes, turned).rank, 2u);
  EXPECT_EQ(StridedView(256, kF32, sizes, turned).range().bytes, 4u * (1 + 11 * 2 + 1));
  EXPECT_EQ(StridedView(256, kF32, sizes, one).range().bytes, 4u);
}

}  // namespace
}  // namespace etna::graph::fusion
