#include <gtest/gtest.h>

#include <etna/tensor/ops/matmul/gemm/cut.h>

namespace etna::product {
namespace {

void expect_cut(const Extent& e, std::int64_t tile, std::int64_t splits) {
  Cut cut = choose_cut(e, 132, plain_tiles());
  EXPECT_EQ(plain_tiles()[cut.tile].m, tile) << e.m << "x" << e.k << "x" << e.n;
  EXPECT_EQ(cut.splits, splits) << e.m << "x" << e.k << "x" << e.n;
}

/// Products of the training step of a small language model, and the cut that was fastest of those tried on an H200.
TEST(ProductCut, TakesWhatWasFastest) {
  expect_cut({1024, 33278, 128}, 128, 1);
  expect_cut({1024, 128, 33278}, 128, 33);
  expect_cut({33278, 128, 1024}, 128, 1);
  expect_cut({1024, 384, 128}, 64, 1);
  expect_cut({1024, 128, 384}, 32, 1);
  expect_cut({384, 128, 1024}, 64, 11);
  expect_cut({128, 128, 1024}, 32, 8);
  expect_cut({4096, 4096, 4096}, 128, 1);
}

TEST(ProductCut, KeepsPartialSumsWithinABoundAndPartsLong) {
  for (std::int64_t k : {1, 63, 64, 1000, 100000}) {
    for (std::int64_t side : {1, 31, 500, 9000}) {
      Cut cut = choose_cut({side, side, k, 3}, 64, plain_tiles());
      EXPECT_GE(cut.splits, 1);
      if (cut.splits == 1) continue;
      EXPECT_GE(k / cut.splits, 64);
      EXPECT_LE(side * side * 3 * cut.splits, std::int64_t{1} << 27);
    }
  }
}

}  // namespace
}  // namespace etna::product
