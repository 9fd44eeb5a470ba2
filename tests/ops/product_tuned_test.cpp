#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <etna/device/vulkan/api/workgroup_matrix.h>
#include <etna/device/kernel.h>
#include <etna/tensor/ops/matmul/gemm/tuned.h>

#include "ops/products.h"

namespace etna::product {
namespace {

Problem problem(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p;
  p.m = m, p.n = n, p.k = k;
  p.dtype = bf16;
  p.b.transposed = true;
  return p;
}

TEST(ProductTable, ShippedOnesAreWholeAndForKnownDevices) {
  const Table table = shipped_table("NVIDIA H200");
  EXPECT_GT(table.size(), 100u);
  EXPECT_EQ(Table::parse(table.text()).size(), table.size());
  EXPECT_EQ(shipped_table("NVIDIA H2").size(), 0u);
}

TEST(ProductTable, ComesBackFromItsText) {
  Table table;
  table.set(Class(problem(1024, 384, 128)), {Tier::coopmat, {2, 4}});
  table.set(Class(problem(33278, 128, 1024)), {Tier::plain, {0, 1}});
  Table again = Table::parse(table.text() + "no line of a table\n1 0 0 4 4 4 0 99 0 1\n");
  ASSERT_EQ(again.size(), 2u);
  const Choice* choice = again.find(Class(problem(1024, 384, 128)));
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->tier, Tier::coopmat);
  EXPECT_EQ(choice->cut.tile, 2u);
  EXPECT_EQ(choice->cut.splits, 4);
  EXPECT_EQ(Table::parse("a table of another version\n" + table.text()).size(), 0u);
}

TEST(ProductTable, ServesSizesNearby) {
  EXPECT_EQ(Class(problem(1024, 384, 128)), Class(problem(1000, 390, 130)));
  EXPECT_NE(Class(problem(1024, 384, 128)), Class(problem(1024, 384, 256)));
  Problem turned = problem(1024, 384, 128);
  turned.b.transposed = false;
  EXPECT_NE(Class(problem(1024, 384, 128)), Class(turned));
}

TEST(ProductTable, IsAskedByProductsAndForcedByTuning) {
  if (!products::with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  Tensor a = products::values({70, 130}, 1, f32), b = products::values({130, 50}, 2, f32);
  std::vector<double> want = products::naive_matmul(a, b);
  for (Choice choice : {Choice{Tier::plain, {1, 1}}, Choice{Tier::plain, {2, 2}}, Choice{Tier::cubin, {}},
                        Choice{Tier::plain, {99, 1}}}) {
    ForcedChoice forced(choice);
    products::expect_near(products::doubles(matmul(products::on_gpu(a), products::on_gpu(b))), want, 1e-5);
    ASSERT_TRUE(forced.met().has_value());
    EXPECT_EQ(forced.met()->dtype, f32);
  }
}

/// x on the device, in rows that end in NaN up to a multiple of eight elements.
Tensor padded(const Tensor& x) {
  std::int64_t columns = x.size(1), pad = (columns + 7) / 8 * 8 - columns;
  Tensor rest = full({x.size(0), pad}, std::nan(""), {f32, kCPU}).to(x.dtype());
  return products::on_gpu(cat({x.contiguous(), rest}, 1)).slice(1, 0, columns);
}

/// Every tile, whole and with edges on all sides, at every alignment, with k split and not.
TEST(ProductTiles, AgreeInEveryLayout) {
  if (!products::with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const bool matrix_units = !gpu::capabilities(kVulkan).matrix_shapes.empty();
  struct Kind {
    Tier tier;
    std::size_t tiles;
    std::vector<DType> dtypes;
  };
  std::vector<Kind> kinds = {{Tier::plain, plain_tiles().size(), {f32}}};
  if (matrix_units) kinds.push_back({Tier::coopmat, coopmat_tiles().size(), {f16, bf16}});
  if (!vulkan::workgroup_matrices(kVulkan).empty())
    kinds.push_back({Tier::coopmat2, coopmat2_tiles().size(), {f16, bf16}});
  std::vector<Shape> sizes = {{131, 133, 137}};  // m, n, k
  if (matrix_units) sizes.insert(sizes.end(), {Shape{128, 256, 192}, Shape{200, 136, 264}, Shape{130, 70, 258}});
  for (const Kind& kind : kinds) {
    for (DType t : kind.dtypes) {
      for (const Shape& size : sizes) {
        std::int64_t m = size[0], n = size[1], k = size[2];
        Tensor a = products::values({m, k}, 1, t), b = products::values({k, n}, 2, t);
        std::vector<double> want = products::naive_matmul(a, b);
        Tensor ga = products::on_gpu(a), gb = products::on_gpu(b);
        Tensor at = products::on_gpu(a.t().contiguous()).t(), bt = products::on_gpu(b.t().contiguous()).t();
        for (std::size_t tile = 0; tile < kind.tiles; ++tile) {
          for (std::int64_t splits : {1, 2}) {
            ForcedChoice forced({kind.tier, {tile, splits}});
            std::string what = std::string(name(t)) + " " + str(size) + " tile " + std::to_string(tile) + " splits " +
                               std::to_string(splits);
            auto check = [&](const Tensor& x, const Tensor& y, const char* layout) {
              products::expect_near(products::doubles(matmul(x, y, f32)), want, 2e-5, what + layout);
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
}  // namespace etna::product
