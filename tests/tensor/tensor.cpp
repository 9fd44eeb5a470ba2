#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Tensor, IsMadeFromValuesOfEveryKind) {
  EXPECT_EQ(from_vector(std::vector<bool>{true, false}).dtype(), boolean);
  EXPECT_EQ(from_vector(std::vector<double>{1, 2}, {2, 1}).shape(), (Shape{2, 1}));
  EXPECT_EQ(arange(2, 8, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4, 6}));
  EXPECT_EQ(arange(1, 0, 1).numel(), 0);
  EXPECT_EQ(arange(1, 0, -0.5, {f32}).to_vector<float>(), (std::vector<float>{1, 0.5}));
  EXPECT_EQ(full({2}, 3.5).to_vector<float>(), (std::vector<float>{3.5, 3.5}));
  EXPECT_EQ(scalar(7, {i32}).item<int>(), 7);
  EXPECT_EQ(ones_like(zeros({2, 3}, {f16})).dtype(), f16);
}

TEST(Tensor, KnowsItsSizes) {
  Tensor x = empty({2, 3, 4});
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(empty({}).numel(), 1);
  EXPECT_EQ(empty({3, 0}).numel(), 0);
  EXPECT_EQ(x.strides(), (Strides{12, 4, 1}));
}

TEST(Tensor, BroadcastsAsNumPyDoes) {
  struct Case {
    Shape a, b, result;
  };
  const Case cases[] = {{{3, 1}, {4}, {3, 4}},    {{}, {2, 2}, {2, 2}}, {{5, 1, 3}, {4, 1}, {5, 4, 3}},
                        {{0, 1}, {1, 3}, {0, 3}}, {{1}, {0}, {0}},      {{2, 3}, {2, 3}, {2, 3}}};
  for (const Case& c : cases) {
    EXPECT_EQ(broadcast(c.a, c.b, "add"), c.result);
    EXPECT_EQ(broadcast(c.b, c.a, "add"), c.result);
    EXPECT_EQ((zeros(c.a) + zeros(c.b)).shape(), c.result);
  }
  Tensor sum = arange(0, 3).reshape({3, 1}) + arange(0, 20, 10);
  EXPECT_EQ(sum.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 10, 1, 11, 2, 12}));
  EXPECT_THAT(
      [] {
        ones({2, 3}) + ones({4});
      },
      ThrowsMessage<ShapeError>(::testing::AllOf(HasSubstr("add"), HasSubstr("[2, 3]"), HasSubstr("[4]"))));
}

TEST(Tensor, WritesInPlace) {
  Tensor x = zeros({2, 2});
  x.copy_(from_vector(std::vector<std::int64_t>{1, 2}));
  x.mul_(3).add_(ones({2}), 0.5).sub_(scalar(1));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2.5, 5.5, 2.5, 5.5}));
  x.mul_(x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{6.25, 30.25, 6.25, 30.25}));
  Tensor y = arange(0, 4).reshape({2, 2});
  y.copy_(y.t());  // overlaps itself
  EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 2, 1, 3}));
  EXPECT_THAT([&] { x.copy_(ones({3})); }, ThrowsMessage<ShapeError>(HasSubstr("copy_")));
  EXPECT_THAT([&] { ones({2}).copy_(x); }, ThrowsMessage<ShapeError>(HasSubstr("does not broadcast to [2]")));
  Tensor leaf = ones({2});
  leaf.requires_grad_();
  EXPECT_THAT([&] { leaf.zero_(); }, ThrowsMessage<GradError>(HasSubstr("requires grad")));
}

TEST(Tensor, GivesNoIntegerThatDoesNotFit) {
  const Tensor large = from_vector<std::int64_t>({(std::int64_t{1} << 40) + 5}),
               small = from_vector<std::int64_t>({300});
  EXPECT_THAT([&] { large.item<int>(); }, ThrowsMessage<Error>(HasSubstr("item: 1099511627781 does not fit")));
  EXPECT_THROW(small.item<std::uint8_t>(), Error);
  EXPECT_THROW(full({}, 3e9).item<int>(), Error);
  EXPECT_THROW(full({}, std::nan("")).item<std::int64_t>(), Error);
  EXPECT_THAT([&] { large.to_vector<std::int32_t>(); }, ThrowsMessage<Error>(HasSubstr("to_vector: 1099511627781")));
  EXPECT_EQ(small.item<std::int16_t>(), 300);
  EXPECT_EQ(full({}, -2.75).item<int>(), -2);
  EXPECT_EQ(large.item<double>(), 1099511627781.0);
}

TEST(Tensor, ClonesApart) {
  Tensor x = ones({2, 3}), y = x.clone(), z = x.detach();
  x.fill_(2);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 1));
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(6, 2));
}

TEST(Tensor, SaysWhatIsWrong) {
  Tensor x = ones({2, 3});
  EXPECT_THAT([] { Tensor().shape(); }, ThrowsMessage<Error>(HasSubstr("an undefined tensor was used")));
  EXPECT_THAT([&] { x.item(); },
              ThrowsMessage<ShapeError>(HasSubstr("has 6 elements [2, 3], item() wants exactly one")));
  EXPECT_THAT([&] { x.data<double>(); }, ThrowsMessage<DtypeError>(HasSubstr("holds f32, f64 was asked for")));
  EXPECT_THAT([&] { x.size(2); }, ThrowsMessage<ShapeError>(HasSubstr("size")));
  EXPECT_THAT(
      [] {
        from_vector(std::vector<float>{1, 2}, {3});
      },
      ThrowsMessage<ShapeError>(HasSubstr("2 values do not fill the shape [3]")));
  EXPECT_THAT([] { empty({2, -1}); }, ThrowsMessage<ShapeError>(HasSubstr("the size -1 in [2, -1] is negative")));
  EXPECT_THAT([] { Dims::filled(9, 1); }, ThrowsMessage<ShapeError>(HasSubstr("at most 8 dimensions")));
  EXPECT_THAT([] { arange(0, 1, 0); }, ThrowsMessage<ShapeError>(HasSubstr("step 0")));
  EXPECT_THAT([] { masked_fill(ones({2}), ones({2}), 0); },
              ThrowsMessage<DtypeError>(HasSubstr("the mask is f32, it must be bool")));
}

TEST(Tensor, GoesToAGpuAndBack) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not set";
  Tensor x = arange(0, 12).to(f32).reshape({3, 4});
  Tensor y = x.t().to(kVulkan);
  EXPECT_EQ(y.device(), kVulkan);
  EXPECT_EQ(y.to_vector<float>(), x.t().to_vector<float>());
  EXPECT_EQ(y[1][2].item<float>(), 9);
}

}  // namespace
}  // namespace etna
