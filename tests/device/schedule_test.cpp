#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <etna/device/internal/graph/schedule.h>

namespace etna::graph {
namespace {

struct Touches {
  std::vector<MemoryRange> reads, writes;
};

std::vector<std::uint32_t> groups_of(const std::vector<Touches>& commands, std::uint32_t reach = 1000) {
  std::vector<Accesses> accesses;
  for (const Touches& c : commands) accesses.push_back({c.reads, c.writes});
  return group_commands(accesses, reach);
}

constexpr MemoryRange a{1000, 100}, b{2000, 100}, c{3000, 100}, d{4000, 100};

TEST(Schedule, IndependentCommandsShareAGroup) {
  EXPECT_EQ(groups_of({{{a}, {b}}, {{a}, {c}}, {{a}, {d}}}), (std::vector<std::uint32_t>{0, 0, 0}));
}

TEST(Schedule, EveryKindOfHazardIsABoundary) {
  EXPECT_EQ(groups_of({{{a}, {b}}, {{b}, {c}}}), (std::vector<std::uint32_t>{0, 1})) << "read after write";
  EXPECT_EQ(groups_of({{{a}, {b}}, {{c}, {a}}}), (std::vector<std::uint32_t>{0, 1})) << "write after read";
  EXPECT_EQ(groups_of({{{a}, {b}}, {{c}, {b}}}), (std::vector<std::uint32_t>{0, 1})) << "write after write";
}

TEST(Schedule, PartsOfOneTensorAreIndependent) {
  EXPECT_EQ(groups_of({{{}, {{1000, 50}}}, {{}, {{1050, 50}}}, {{{1049, 2}}, {b}}}),
            (std::vector<std::uint32_t>{0, 0, 1}));
}

TEST(Schedule, CommandsOfALineDoNotOvertake) {
  // The third is ready at once, and the fourth only follows it.
  const std::vector<Touches> commands{{{}, {a}}, {{a}, {b}}, {{}, {c}}, {{c}, {d}}};
  EXPECT_EQ(groups_of(commands), (std::vector<std::uint32_t>{0, 1, 0, 1}));
  std::vector<Accesses> accesses;
  for (const Touches& t : commands) accesses.push_back({t.reads, t.writes});
  accesses[1].line = accesses[2].line = 1;
  EXPECT_EQ(group_commands(accesses), (std::vector<std::uint32_t>{0, 1, 1, 2}));
  accesses[2].line = 0;
  EXPECT_EQ(group_commands(accesses), (std::vector<std::uint32_t>{0, 1, 0, 1})) << "another line";
}

TEST(Schedule, BranchesRunSideBySide) {
  // Two chains from one start, queued one after the other.
  EXPECT_EQ(groups_of({{{}, {a}}, {{a}, {b}}, {{b}, {b}}, {{a}, {c}}, {{c}, {c}}, {{b, c}, {d}}}),
            (std::vector<std::uint32_t>{0, 1, 2, 1, 2, 3}));
}

TEST(Schedule, WorkIsNotDrawnFurtherForwardThanItsReach) {
  std::vector<Touches> chain = {{{}, {a}}};
  for (int i = 0; i < 10; ++i) chain.push_back({{a}, {a}});
  chain.push_back({{}, {b}});
  EXPECT_EQ(groups_of(chain, 3).back(), 7u);
  EXPECT_EQ(groups_of(chain, 100).back(), 0u);
}

TEST(Schedule, WhatWaitsForForeignWorkStaysBehindWhatRunsMeanwhile) {
  const std::vector<Touches> touches = {{{}, {a}},  {{a}, {b}}, {{}, {c}}, {{c}, {c}},
                                        {{c}, {c}}, {{c}, {c}}, {{b}, {d}}};
  EXPECT_EQ(groups_of(touches), (std::vector<std::uint32_t>{0, 1, 0, 1, 2, 3, 2}));
  std::vector<Accesses> accesses;
  for (const Touches& t : touches) accesses.push_back({t.reads, t.writes});
  accesses[1].line = accesses[5].line = 0;
  EXPECT_EQ(group_commands(accesses), (std::vector<std::uint32_t>{0, 1, 0, 1, 2, 3, 3})) << "of two it waits for one";
  accesses[6].reads = touches[5].reads;
  EXPECT_EQ(group_commands(accesses).back(), 4u) << "never beside what it waits for";
}

TEST(Schedule, EmptyRangesClashWithNothing) {
  EXPECT_EQ(groups_of({{{}, {{1000, 0}}}, {{{1000, 0}}, {a}}, {{}, {b}}}), (std::vector<std::uint32_t>{0, 0, 0}));
}

TEST(Schedule, OrdersWhatClashesAndLosesNoSerialResult) {
  std::mt19937 random(3);
  constexpr std::uint32_t words = 64;
  for (int round = 0; round < 40; ++round) {
    std::vector<Touches> commands;
    for (int i = 0; i < 60; ++i) {
      auto range = [&] {
        const std::uint64_t from = random() % words;
        return MemoryRange{from, 1 + random() % std::min<std::uint64_t>(8, words - from)};
      };
      commands.push_back({{range(), range()}, {range()}});
    }
    std::vector<std::uint32_t> groups = groups_of(commands, 1 + random() % 20);
    // Each command writes a number computed from its own and from all it reads.
    auto run = [&](const std::vector<std::size_t>& order) {
      std::vector<std::uint64_t> memory(words, 1);
      for (std::size_t i : order) {
        std::uint64_t sum = i + 1;
        for (const MemoryRange& r : commands[i].reads) {
          for (std::uint64_t w = r.address; w < r.address + r.bytes; ++w) sum = sum * 31 + memory[w];
        }
        for (const MemoryRange& r : commands[i].writes) {
          for (std::uint64_t w = r.address; w < r.address + r.bytes; ++w) memory[w] = sum;
        }
      }
      return memory;
    };
    std::vector<std::size_t> serial(commands.size()), grouped;
    for (std::size_t i = 0; i < serial.size(); ++i) serial[i] = i;
    // Within a group in any order: here in reverse.
    const std::uint32_t last = *std::max_element(groups.begin(), groups.end());
    for (std::uint32_t g = 0; g <= last; ++g) {
      for (std::size_t i = commands.size(); i-- > 0;) {
        if (groups[i] == g) grouped.push_back(i);
      }
    }
    EXPECT_EQ(run(serial), run(grouped)) << round;
  }
}

}  // namespace
}  // namespace etna::graph
