#include <etna/device/internal/graph/hazards.h>

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace etna::graph {
namespace {

Barrier read(Hazards& h, MemoryRange r, Stage stage = kCompute) { return h.access(stage, {&r, 1}, {}); }
Barrier write(Hazards& h, MemoryRange r, Stage stage = kCompute) { return h.access(stage, {}, {&r, 1}); }

TEST(RangeSet, JoinsTouchingRangesAndFindsOverlaps) {
  RangeSet set;
  set.insert({100, 50});
  set.insert({200, 50});
  EXPECT_EQ(set.size(), 2u);
  EXPECT_FALSE(set.overlaps({150, 50}));
  EXPECT_TRUE(set.overlaps({149, 1}));
  EXPECT_TRUE(set.overlaps({0, 1000}));
  set.insert({150, 50});
  EXPECT_EQ(set.size(), 1u);
  EXPECT_FALSE(set.overlaps({250, 10}));
  EXPECT_FALSE(set.overlaps({120, 0}));
}

TEST(RangeSet, AgreesWithABitmapAndOverCapacityOnlyCoversMore) {
  std::mt19937 random(1);
  for (std::size_t capacity : {1000u, 8u}) {
    RangeSet set(capacity);
    std::vector<bool> bits(4096);
    for (int i = 0; i < 400; ++i) {
      MemoryRange r{random() % 4000, random() % 24};
      bool expected = false;
      for (std::uint64_t b = r.address; b < r.address + r.bytes; ++b) expected = expected || bits[b];
      if (capacity > 100) {
        EXPECT_EQ(set.overlaps(r), expected);
      }
      if (expected) {
        EXPECT_TRUE(set.overlaps(r));
      }
      if (i % 2) continue;
      set.insert(r);
      EXPECT_LE(set.size(), capacity);
      for (std::uint64_t b = r.address; b < r.address + r.bytes; ++b) bits[b] = true;
    }
  }
}

TEST(Hazards, IndependentAccessesNeedNoBarrier) {
  Hazards h;
  EXPECT_FALSE(write(h, {0, 100}));
  EXPECT_FALSE(write(h, {100, 100}));
  EXPECT_FALSE(read(h, {200, 100}));
  EXPECT_FALSE(read(h, {250, 100}));
}

TEST(Hazards, ReadAfterWriteWriteAfterReadAndWriteAfterWriteNeedOne) {
  for (int kind = 0; kind < 3; ++kind) {
    Hazards h;
    EXPECT_FALSE(kind == 1 ? read(h, {0, 100}) : write(h, {0, 100}));
    Barrier barrier = kind == 0 ? read(h, {99, 1}) : write(h, {99, 1});
    EXPECT_EQ(barrier.before, unsigned{kCompute}) << kind;
    EXPECT_EQ(barrier.behind, unsigned{kCompute}) << kind;
    EXPECT_FALSE(read(h, {0, 50})) << "the barrier covers all that came before";
  }
}

TEST(Hazards, TransfersWidenTheBarrier) {
  Hazards h;
  EXPECT_FALSE(write(h, {0, 100}, kTransfer));
  Barrier barrier = read(h, {0, 100});
  EXPECT_EQ(barrier.before & kTransfer, unsigned{kTransfer});
  EXPECT_EQ(barrier.behind & kCompute, unsigned{kCompute});
}

TEST(Hazards, ACopyStillSeesWritesFromBeforeAComputeBarrier) {
  Hazards h;
  EXPECT_FALSE(write(h, {0, 100}));
  EXPECT_TRUE(read(h, {0, 100}));  // compute → compute: does not cover copies
  Barrier barrier = read(h, {0, 100}, kTransfer);
  EXPECT_EQ(barrier.before & kCompute, unsigned{kCompute});
  EXPECT_EQ(barrier.behind & kTransfer, unsigned{kTransfer});
}

}  // namespace
}  // namespace etna::graph
