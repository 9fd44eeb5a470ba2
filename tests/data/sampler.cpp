#include <etna/data/sampler.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/dataset.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using Indices = std::vector<std::int64_t>;

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}
Indices counted(std::int64_t n) { return SequentialSampler(n).indices(0); }

TEST(Random, IsTheSameOnEveryMachine) {
  Random random(42, 7);
  EXPECT_EQ(random.bits(), Random(42, 7).bits());
  EXPECT_EQ(Random(1).permutation(8), (Indices{4, 6, 5, 7, 2, 3, 1, 0}));
  EXPECT_NE(Random(1).bits64(), Random(2).bits64());
  EXPECT_NE(Random::of_sample(1, 0, 0).bits64(), Random::of_sample(1, 1, 0).bits64());
  EXPECT_NE(Random::of_sample(1, 0, 0).bits64(), Random::of_sample(1, 0, 1).bits64());
}

TEST(Random, IsUniform) {
  Random random(3);
  std::vector<int> seen(7);
  double sum = 0;
  for (int i = 0; i < 70000; ++i) {
    ++seen[static_cast<std::size_t>(random.below(7))];
    const double u = random.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  for (const int count : seen) EXPECT_NEAR(count, 10000, 500);
  EXPECT_NEAR(sum / 70000, 0.5, 0.005);
  EXPECT_EQ(random.below(1), 0);
  EXPECT_THROW(random.below(0), Error);
  EXPECT_TRUE(random.permutation(0).empty());
}

TEST(Sampler, ARandomOneIsAPermutationThatChangesWithTheEpoch) {
  const RandomSampler sampler(100, 5);
  EXPECT_EQ(sorted(sampler.indices(0)), counted(100));
  EXPECT_EQ(sampler.indices(3), RandomSampler(100, 5).indices(3));
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
  EXPECT_NE(sampler.indices(0), RandomSampler(100, 6).indices(0));
  EXPECT_EQ(RandomSampler(10, 0, false, 25).indices(0).size(), 25u);
  const Indices drawn = RandomSampler(10, 0, true, 1000).indices(0);
  EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 10u);
  EXPECT_TRUE(RandomSampler(0).indices(0).empty());
  EXPECT_THROW(RandomSampler(-1), Error);
  EXPECT_THROW(RandomSampler(0, 0, true, 5), Error);
  EXPECT_EQ(sorted(SubsetRandomSampler({7, 3, 5}).indices(2)), (Indices{3, 5, 7}));
}

TEST(Sampler, WeightsDecideHowOftenAnIndexComes) {
  const std::vector<double> weights{0, 1, 0, 3, 6};
  std::vector<int> seen(5);
  for (const std::int64_t i : WeightedRandomSampler(weights, 50000).indices(1)) ++seen[static_cast<std::size_t>(i)];
  EXPECT_EQ(seen[0] + seen[2], 0);
  EXPECT_NEAR(seen[1], 5000, 400);
  EXPECT_NEAR(seen[3], 15000, 700);
  EXPECT_NEAR(seen[4], 30000, 700);
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch)
    EXPECT_EQ(sorted(WeightedRandomSampler(weights, 3, false).indices(epoch)), (Indices{1, 3, 4}));
  EXPECT_THROW(WeightedRandomSampler(weights, 4, false), Error);
  EXPECT_THROW(WeightedRandomSampler({0, 0}, 1), Error);
  EXPECT_THROW(WeightedRandomSampler({1, -1}, 1), Error);
  EXPECT_THROW(WeightedRandomSampler({1, NAN}, 1), Error);
  EXPECT_THROW(WeightedRandomSampler({1e308, 1e308}, 1), Error);
  EXPECT_TRUE(WeightedRandomSampler({}, 0).indices(0).empty());
}

TEST(Sampler, SharesOfProcessesMakeTheWhole) {
  for (const bool drop : {false, true}) {
    for (const std::int64_t n : {10, 11, 12, 2}) {
      Indices all;
      std::set<std::size_t> sizes;
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        const DistributedSampler sampler(n, 3, rank, {.seed = 4, .drop_last = drop});
        const Indices mine = sampler.indices(2);
        EXPECT_EQ(std::ssize(mine), sampler.size());
        sizes.insert(mine.size());
        all.insert(all.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(sizes.size(), 1u);
      EXPECT_EQ(std::ssize(all), drop ? n / 3 * 3 : (n + 2) / 3 * 3);
      const std::set<std::int64_t> distinct(all.begin(), all.end());
      EXPECT_EQ(std::ssize(distinct), drop ? n / 3 * 3 : n);
    }
  }
  EXPECT_EQ(DistributedSampler(6, 2, 1, {.shuffle = false}).indices(0), (Indices{1, 3, 5}));
  EXPECT_THROW(DistributedSampler(6, 2, 2), Error);
}

TEST(Sampler, BatchesAreConsecutive) {
  const auto order = std::make_shared<SequentialSampler>(5);
  EXPECT_EQ(BatchSampler(order, 2).batches(0), (std::vector<Indices>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(BatchSampler(order, 2, true).batches(0), (std::vector<Indices>{{0, 1}, {2, 3}}));
  EXPECT_EQ(BatchSampler(order, 2).size(), 3);
  EXPECT_EQ(BatchSampler(order, 2, true).size(), 2);
  EXPECT_EQ(BatchSampler(order, 9).size(), 1);
  EXPECT_TRUE(BatchSampler(order, 9, true).batches(0).empty());
  EXPECT_THROW(BatchSampler(order, 0), Error);
}

}  // namespace
}  // namespace etna::data
