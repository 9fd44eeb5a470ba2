#include <gtest/gtest.h>

#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

namespace etna::gemm {
namespace {

void expect_tiling(const Extent& e, std::int64_t tile, std::int64_t split_k) {
  Tiling tiling = choose_tiling(e, 132, plain_tiles());
  EXPECT_EQ(plain_tiles()[tiling.tile].m, tile) << e.m << "x" << e.k << "x" << e.n;
  EXPECT_EQ(tiling.split_k, split_k) << e.m << "x" << e.k << "x" << e.n;
}

/// Gemms of the training step of a small language model, and the fastest tiling of those tried on an H200.
TEST(GemmTiling, TakesWhatWasFastest) {
  expect_tiling({1024, 33278, 128}, 128, 1);
  expect_tiling({1024, 128, 33278}, 128, 33);
  expect_tiling({33278, 128, 1024}, 128, 1);
  expect_tiling({1024, 384, 128}, 64, 1);
  expect_tiling({1024, 128, 384}, 32, 1);
  expect_tiling({384, 128, 1024}, 64, 11);
  expect_tiling({128, 128, 1024}, 32, 8);
  expect_tiling({4096, 4096, 4096}, 128, 1);
}

TEST(GemmTiling, KeepsPartialSumsWithinABoundAndPartsLong) {
  for (std::int64_t k : {1, 63, 64, 1000, 100000}) {
    for (std::int64_t side : {1, 31, 500, 9000}) {
      Tiling tiling = choose_tiling({side, side, k, 3}, 64, plain_tiles());
      EXPECT_GE(tiling.split_k, 1);
      if (tiling.split_k == 1) continue;
      EXPECT_GE(k / tiling.split_k, 64);
      EXPECT_LE(side * side * 3 * tiling.split_k, std::int64_t{1} << 27);
    }
  }
}

}  // namespace
}  // namespace etna::gemm
