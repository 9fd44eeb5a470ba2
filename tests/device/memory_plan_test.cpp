#include <random>

#include <gtest/gtest.h>

#include <etna/device/internal/graph/memory_plan.h>

namespace etna::graph {
namespace {

constexpr std::size_t kUnlimited = ~std::size_t{0};

/// Checks that no two lifetimes in use at the same time share a byte, and that each is inside its chunk.
void expect_sound(const std::vector<Lifetime>& list, const MemoryPlan& plan) {
  ASSERT_EQ(plan.places.size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& a = plan.places[i];
    ASSERT_LT(a.chunk, plan.chunks.size());
    EXPECT_LE(a.offset + list[i].bytes, plan.chunks[a.chunk]);
    EXPECT_EQ(a.offset % 256, 0u);
    for (std::size_t k = 0; k < i; ++k) {
      const auto& b = plan.places[k];
      const bool in_time = list[i].first <= list[k].last && list[k].first <= list[i].last;
      const bool in_space =
          a.chunk == b.chunk && a.offset < b.offset + list[k].bytes && b.offset < a.offset + list[i].bytes;
      EXPECT_FALSE(in_time && in_space) << i << " and " << k;
    }
  }
}

TEST(MemoryPlan, SharesMemoryBetweenWhatIsNotNeededTogether) {
  std::vector<Lifetime> list = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}};
  MemoryPlan plan = plan_memory(list, kUnlimited);
  expect_sound(list, plan);
  EXPECT_EQ(plan.planned, 1024u);
  EXPECT_EQ(plan.live, 1024u);
  EXPECT_EQ(plan.naive, 3 * 1024u);
}

TEST(MemoryPlan, NeededAtOneTimeMeansApart) {
  // The second begins when the first is last needed.
  std::vector<Lifetime> list = {{256, 0, 4}, {256, 4, 8}};
  MemoryPlan plan = plan_memory(list, kUnlimited);
  expect_sound(list, plan);
  EXPECT_EQ(plan.planned, 512u);
}

TEST(MemoryPlan, FillsGapsBelowWhatLivesLong) {
  std::vector<Lifetime> list = {{4096, 0, 9}, {1024, 0, 2}, {1024, 3, 5}, {512, 3, 5}, {256, 6, 9}};
  MemoryPlan plan = plan_memory(list, kUnlimited);
  expect_sound(list, plan);
  EXPECT_EQ(plan.planned, plan.live);
}

TEST(MemoryPlan, KeepsChunksBelowTheLimit) {
  std::vector<Lifetime> list(8, Lifetime{1000, 0, 0});
  MemoryPlan plan = plan_memory(list, 4096);
  expect_sound(list, plan);
  EXPECT_EQ(plan.chunks, (std::vector<std::size_t>{4096, 4096}));
  // One that alone is larger gets its own chunk.
  list.push_back({10000, 0, 0});
  plan = plan_memory(list, 4096);
  expect_sound(list, plan);
  EXPECT_EQ(plan.chunks.size(), 3u);
}

TEST(MemoryPlan, OfNothingIsNothing) {
  MemoryPlan plan = plan_memory({}, kUnlimited);
  EXPECT_EQ(plan.planned, 0u);
  EXPECT_TRUE(plan.chunks.empty());
}

TEST(MemoryPlan, IsSoundAndTightForRandomLifetimes) {
  std::mt19937 random(7);
  double planned = 0, live = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> list;
    for (int i = 0; i < 120; ++i) {
      const std::uint32_t first = random() % 100, length = random() % (random() % 8 == 0 ? 80 : 6);
      list.push_back({1 + random() % (1u << (6 + random() % 14)), first, first + length});
    }
    MemoryPlan plan = plan_memory(list, round % 2 == 0 ? kUnlimited : std::size_t{1} << 20);
    expect_sound(list, plan);
    EXPECT_GE(plan.planned, plan.live);
    EXPECT_LE(plan.planned, plan.naive);
    planned += static_cast<double>(plan.planned);
    live += static_cast<double>(plan.live);
  }
  EXPECT_LT(planned, 1.25 * live);
}

}  // namespace
}  // namespace etna::graph
