#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ints = std::vector<std::int64_t>;

bool shares(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

TEST(Views, ShareStorageAndShowTheRightElements) {
  Tensor x = arange(0, 24).reshape({2, 3, 4});
  struct Case {
    const char* what;
    Tensor view;
    Shape shape;
    Ints values;
  };
  const Case cases[] = {
      {"transpose", x.select(0, 0).t(), {4, 3}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
      {"permute", x.permute({2, 0, 1}).select(0, 1), {2, 3}, {1, 5, 9, 13, 17, 21}},
      {"slice", x.slice(2, 1, 4, 2).select(1, -1), {2, 2}, {9, 11, 21, 23}},
      {"operator[]", x[1][2], {4}, {20, 21, 22, 23}},
      {"expand", x.select(2, 0).slice(1, 0, 1).expand({2, 3}), {2, 3}, {0, 0, 0, 12, 12, 12}},
      {"unsqueeze", x[0][0].unsqueeze(0), {1, 4}, {0, 1, 2, 3}},
      {"squeeze", x.slice(0, 1, 2).slice(1, 0, 1).squeeze(), {4}, {12, 13, 14, 15}},
      {"flatten", x.flatten(1)[1], {12}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"view of a view", x.slice(1, 0, 2).select(0, 0).reshape({8}), {8}, {0, 1, 2, 3, 4, 5, 6, 7}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.view.shape(), c.shape) << c.what;
    EXPECT_EQ(c.view.to_vector<std::int64_t>(), c.values) << c.what;
    EXPECT_TRUE(shares(c.view, x)) << c.what;
  }
}

TEST(Views, WritesThroughAViewShowInTheWhole) {
  Tensor x = zeros({2, 3});
  x.t()[1].fill_(5);
  x.slice(1, 2, 3).add_(ones({2, 1}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 5, 1, 0, 5, 1}));
}

TEST(Views, ReshapeCopiesOnlyWhereItMust) {
  Tensor x = arange(0, 12).reshape({3, 4});
  EXPECT_TRUE(shares(x.reshape({2, 6}), x));
  EXPECT_FALSE(shares(x.t().reshape({12}), x));
  EXPECT_EQ(x.t().reshape({12}).to_vector<std::int64_t>(), (Ints{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_TRUE(shares(x.slice(1, 0, 2).reshape({3, 2, 1}), x));
  EXPECT_TRUE(shares(x.t().reshape({2, 2, 3}), x));
  EXPECT_EQ(x.t().reshape({2, 2, 3})[1][0].to_vector<std::int64_t>(), (Ints{2, 6, 10}));
  EXPECT_EQ(empty({0, 4}).reshape({2, 0}).shape(), (Shape{2, 0}));
  EXPECT_EQ(x.reshape({-1, 6}).shape(), (Shape{2, 6}));
  EXPECT_TRUE(x.reshape({4, 3}).is_contiguous());
  EXPECT_FALSE(x.t().is_contiguous());
  EXPECT_TRUE(x.t().contiguous().is_contiguous());
}

TEST(Views, SplitAndChunkCoverTheWhole) {
  Tensor x = arange(0, 7);
  std::vector<Tensor> parts = x.split(3);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].to_vector<std::int64_t>(), (Ints{6}));
  parts = x.split(std::vector<std::int64_t>{2, 0, 5});
  EXPECT_EQ(parts[1].numel(), 0);
  EXPECT_EQ(parts[2].to_vector<std::int64_t>(), (Ints{2, 3, 4, 5, 6}));
  EXPECT_EQ(x.chunk(3).size(), 3U);
  EXPECT_EQ(x.chunk(3)[2].numel(), 1);
}

TEST(Views, SayWhatIsWrong) {
  Tensor x = ones({2, 3});
  EXPECT_THAT([&] { x.reshape({4}); },
              ThrowsMessage<ShapeError>(HasSubstr("reshape: [2, 3] with 6 elements does not fit [4]")));
  EXPECT_THAT([&] { x.reshape({-1, -1}); }, ThrowsMessage<ShapeError>(HasSubstr("one size may be -1")));
  EXPECT_THAT([&] { x.t().view({6}); }, ThrowsMessage<ShapeError>(HasSubstr("without a copy; use reshape")));
  EXPECT_THAT([&] { x.permute({0}); }, ThrowsMessage<ShapeError>(HasSubstr("names 1 dimensions")));
  EXPECT_THAT([&] { x.permute({0, 0}); }, ThrowsMessage<ShapeError>(HasSubstr("named twice")));
  EXPECT_THAT([&] { x.transpose(0, 2); }, ThrowsMessage<ShapeError>(HasSubstr("transpose")));
  EXPECT_THAT([&] { x.select(0, 2); },
              ThrowsMessage<ShapeError>(HasSubstr("index 2 is outside dimension 0 of [2, 3], which takes -2 to 1")));
  EXPECT_THAT([&] { x.slice(0, 0, 2, 0); }, ThrowsMessage<ShapeError>(HasSubstr("step is 0")));
  EXPECT_THAT([&] { x.expand({2, 4}); }, ThrowsMessage<ShapeError>(HasSubstr("[2, 3] does not expand to [2, 4]")));
  EXPECT_THAT([&] { x.expand({3}); }, ThrowsMessage<ShapeError>(HasSubstr("fewer dimensions")));
  EXPECT_THAT([&] { x.split(0); }, ThrowsMessage<ShapeError>(HasSubstr("chunks of 0")));
  EXPECT_THAT([&] { x.split(std::vector<std::int64_t>{1}, 1); }, ThrowsMessage<ShapeError>(HasSubstr("add up to 1")));
  EXPECT_THAT([&] { ones({2}).t(); }, ThrowsMessage<ShapeError>(HasSubstr("at least two dimensions")));
  EXPECT_THAT([&] { x.flatten(1, 0); }, ThrowsMessage<ShapeError>(HasSubstr("after the last")));
}

}  // namespace
}  // namespace etna
