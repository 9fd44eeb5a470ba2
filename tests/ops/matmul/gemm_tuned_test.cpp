#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>

#include "ops/numerics.h"

namespace etna::gemm {
namespace {

GemmParams params(std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmParams p;
  p.m = m, p.n = n, p.k = k;
  p.dtype = bf16;
  p.b.transposed = true;
  return p;
}

TEST(TuningTable, ShippedOnesAreWholeAndForKnownDevices) {
  const TuningTable table = shipped_table("NVIDIA H200");
  EXPECT_GT(table.size(), 100u);
  EXPECT_EQ(TuningTable::parse(table.text()).size(), table.size());
  EXPECT_EQ(shipped_table("NVIDIA H2").size(), 0u);
}

TEST(TuningTable, ComesBackFromItsText) {
  TuningTable table;
  table.set(ShapeClass(params(1024, 384, 128)), {KernelVariant::coopmat, {2, 4}});
  table.set(ShapeClass(params(33278, 128, 1024)), {KernelVariant::plain, {0, 1}});
  TuningTable again = TuningTable::parse(table.text() + "no line of a table\n1 0 0 4 4 4 0 coopmat9 0 1\n");
  ASSERT_EQ(again.size(), 2u);
  const KernelConfig* config = again.find(ShapeClass(params(1024, 384, 128)));
  ASSERT_NE(config, nullptr);
  EXPECT_EQ(config->variant, KernelVariant::coopmat);
  EXPECT_EQ(config->tiling.tile, 2u);
  EXPECT_EQ(config->tiling.split_k, 4);
  EXPECT_EQ(TuningTable::parse("a table of another version\n" + table.text()).size(), 0u);
}

TEST(TuningTable, ServesSizesNearby) {
  EXPECT_EQ(ShapeClass(params(1024, 384, 128)), ShapeClass(params(1000, 390, 130)));
  EXPECT_NE(ShapeClass(params(1024, 384, 128)), ShapeClass(params(1024, 384, 256)));
  GemmParams turned = params(1024, 384, 128);
  turned.b.transposed = false;
  EXPECT_NE(ShapeClass(params(1024, 384, 128)), ShapeClass(turned));
}

TEST(TuningTable, IsAskedByGemmsAndForcedByTuning) {
  if (!numerics::with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  Tensor a = numerics::values({70, 130}, 1, f32), b = numerics::values({130, 50}, 2, f32);
  std::vector<double> want = numerics::naive_matmul(a, b);
  for (KernelConfig config : {KernelConfig{KernelVariant::plain, {1, 1}}, KernelConfig{KernelVariant::plain, {2, 2}},
                              KernelConfig{KernelVariant::cubin, {}}, KernelConfig{KernelVariant::plain, {99, 1}}}) {
    ForcedConfig forced(config);
    numerics::expect_near(numerics::doubles(matmul(numerics::on_gpu(a), numerics::on_gpu(b))), want, 1e-5);
    ASSERT_TRUE(forced.last_class().has_value());
    EXPECT_EQ(forced.last_class()->dtype, f32);
  }
}

/// x on the device, with rows padded with NaN to a multiple of eight elements.
Tensor padded(const Tensor& x) {
  std::int64_t columns = x.size(1), pad = (columns + 7) / 8 * 8 - columns;
  Tensor rest = full({x.size(0), pad}, std::nan(""), {f32, kCPU}).to(x.dtype());
  return numerics::on_gpu(cat({x.contiguous(), rest}, 1)).slice(1, 0, columns);
}

/// Every tile, whole and with partial tiles on all sides, at every alignment, with and without split-K.
TEST(GemmTiles, AgreeInEveryLayout) {
  if (!numerics::with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const bool matrix_units = !gpu::capabilities(kVulkan).matrix_shapes.empty();
  struct Kind {
    KernelVariant variant;
    std::size_t tiles;
    std::vector<DType> dtypes;
  };
  std::vector<Kind> kinds = {{KernelVariant::plain, plain_tiles().size(), {f32}}};
  if (matrix_units) kinds.push_back({KernelVariant::coopmat, coopmat_tiles().size(), {f16, bf16}});
  std::vector<Shape> sizes = {{131, 133, 137}};  // m, n, k
  if (matrix_units) sizes.insert(sizes.end(), {Shape{128, 256, 192}, Shape{200, 136, 264}, Shape{130, 70, 258}});
  for (const Kind& kind : kinds) {
    for (DType t : kind.dtypes) {
      for (const Shape& size : sizes) {
        std::int64_t m = size[0], n = size[1], k = size[2];
        Tensor a = numerics::values({m, k}, 1, t), b = numerics::values({k, n}, 2, t);
        std::vector<double> want = numerics::naive_matmul(a, b);
        Tensor ga = numerics::on_gpu(a), gb = numerics::on_gpu(b);
        Tensor at = numerics::on_gpu(a.t().contiguous()).t(), bt = numerics::on_gpu(b.t().contiguous()).t();
        for (std::size_t tile = 0; tile < kind.tiles; ++tile) {
          for (std::int64_t split_k : {1, 2}) {
            ForcedConfig forced({kind.variant, {tile, split_k}});
            std::string what = std::string(name(t)) + " " + str(size) + " tile " + std::to_string(tile) + " split_k " +
                               std::to_string(split_k);
            auto check = [&](const Tensor& x, const Tensor& y, const char* layout) {
              numerics::expect_near(numerics::doubles(matmul(x, y, f32)), want, 2e-5, what + layout);
            };
            check(ga, gb, " NN");
            check(ga, bt, " NT");
            check(at, gb, " TN");
            if (matrix_units) check(at, bt, " TT");
            check(padded(a), padded(b.t()).t(), " NT, padded");
            check(padded(a.t()).t(), padded(b), " TN, padded");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace etna::gemm
