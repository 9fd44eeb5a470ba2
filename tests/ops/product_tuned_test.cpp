#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <etna/tensor/product/tuned.h>

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

}  // namespace
}  // namespace etna::product
