#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

#include "nn/on_device.h"

// What people type in brackets.
namespace etna {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Brackets : public OnDevice {};
ETNA_ON_EVERY_DEVICE(Brackets);

std::vector<double> indexing_values(const Tensor& x) { return x.to_vector<double>(); }

TEST_P(Brackets, Read) {
  const Tensor x = arange(0, 24, 1, {f32, device()}).reshape({2, 3, 4});
  const Tensor at = from_vector<std::int64_t>({2, 0}, device());
  EXPECT_THAT(indexing_values(x[{1, 2}]), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(indexing_values(x[{Ellipsis, 3}]), ElementsAre(3, 7, 11, 15, 19, 23));
  EXPECT_THAT(indexing_values(x[{0, Slice(0, 3, 2), 1}]), ElementsAre(1, 9));
  EXPECT_THAT(indexing_values(x[{0, 0, Slice(None, None, -1)}]), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(indexing_values(x[{Slice(), at, 0}]), ElementsAre(8, 0, 20, 12));
  EXPECT_THAT(indexing_values(x[x > 21.0]), ElementsAre(22, 23));
  EXPECT_EQ((x[{None, Slice(1, 2), None}].shape()), (Shape{1, 1, 1, 3, 4}));
  EXPECT_EQ((x[{1, 2, 3}].item()), 23);
  EXPECT_THAT(indexing_values(x[{0, 0}] + 1.0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(sum(x[at.slice(0, 1, 2)]).item(), 66);
  EXPECT_THAT(indexing_values(x.index({0, at}).sum(1)), ElementsAre(38, 6));
}

TEST_P(Brackets, Write) {
  Tensor x = zeros({2, 3}, device());
  const Tensor at = from_vector<std::int64_t>({2, 0}, device());
  x[{0, at}] = from_vector<float>({5, 6}, device());
  EXPECT_THAT(indexing_values(x), ElementsAre(6, 0, 5, 0, 0, 0));
  x[x > 5.0] = 1.0;
  x[{Slice(), 1}] = 2;
  EXPECT_THAT(indexing_values(x), ElementsAre(1, 2, 5, 0, 2, 0));
  x[{1, at}] += 3.0;
  EXPECT_THAT(indexing_values(x), ElementsAre(1, 2, 5, 3, 2, 3));
  x[{0, Slice(None, None, -1)}] = x[1];
  EXPECT_THAT(indexing_values(x), ElementsAre(3, 2, 3, 3, 2, 3));
  x[0] = x[{1, at}].sum();
  EXPECT_THAT(indexing_values(x[0]), Each(6));
  x.index_put_({at.slice(0, 1, 2)}, 7.0);
  EXPECT_THAT(indexing_values(x[0]), Each(7));
}

}  // namespace
}  // namespace etna
