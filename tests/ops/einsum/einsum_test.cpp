#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Einsum, ErrorsQuoteTheEquation) {
  const Tensor m = ones({2, 3});
  const auto said = [&](const char* equation, const TensorList& in, const char* why) {
    EXPECT_THAT([&] { einsum(equation, in); },
                ThrowsMessage<ShapeError>(HasSubstr("einsum(\"" + std::string(equation) + "\"): " + why)));
  };
  said("ij,jk->ik", {m}, "it names more operands than the 1 given");
  said("ij->ij", {m, m}, "it names 1 operands, 2 were given");
  said("ijk->i", {m}, "operand 0 is [2, 3], which has 2 dimensions, not 3");
  said("i->i", {m}, "operand 0 is [2, 3], which has 2 dimensions, not 1; '...' stands for further ones");
  said("ij,jk->ik", {m, m}, "'j' is 2 in operand 1 [2, 3], but 3 before");
  said("ij->ik", {m}, "no operand has the output's 'k'");
  said("ij->ii", {m}, "the output repeats 'i'");
  said("i1->i", {m}, "'1' is no letter");
  said("i.j->i", {m}, "'...' may stand once");
  said("......", {m}, "'...' may stand once");
  said("ii->i", {m}, "'i' is 3 in operand 0");
  said("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})}, "a product of two operands has 10");
  EXPECT_THROW(einsum("i", {Tensor()}), UndefinedTensor);
  EXPECT_THROW(einsum("", TensorList{}), ShapeError);
}

TEST(Einsum, TakesEveryShapeThereIs) {
  EXPECT_EQ(einsum(",->", scalar(2), scalar(3)).item(), 6);
  EXPECT_EQ(einsum("", scalar(2)).item(), 2);
  EXPECT_EQ(einsum("ij,jk", ones({2, 0}), ones({0, 3})).to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(einsum("i,i", ones({0}), ones({0})).item(), 0);
  EXPECT_EQ(einsum("...,...", ones({2, 1}), ones({3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(einsum("ij->", ones({3, 2}, i32)).dtype(), i64) << "as sum()";
  EXPECT_EQ(einsum("Ab,ab->Aa", ones({2, 3}), ones({4, 3})).shape(), (Shape{2, 4}));
  EXPECT_EQ(einsum("ba,aB", ones({2, 3}), ones({3, 4})).shape(), (Shape{4, 2})) << "capitals first";
  const Tensor x = random_tensor({3, 4});
  expect_close(einsum("ij,kj->ik", x, x), matmul(x, x.t()).to_vector<double>(), 0);
  expect_close(einsum("ij->ij", x.t().slice(0, 1, 4, 2)), x.t().slice(0, 1, 4, 2).to_vector<double>(), 0);
}

TEST(Einsum, DoesNotMultiplyNanByZero) {
  const Tensor x = from_vector<float>({1, kNaN, kNaN, 4}, {2, 2});
  expect_close(einsum("ii->i", x), {1, 4}, 0);
  expect_close(trace(x), {5}, 0);
}

TEST(Einsum, IsCaptured) {
  for (Device device : devices()) {
    const Tensor a = placed(random_tensor({2, 3}, f32), device), b = placed(random_tensor({3, 4}, f32), device),
                 c = placed(random_tensor({4, 2}, f32), device);
    auto step = capture([&] { return einsum("ij,jk,kl->li", a, b, c); }, {.device = device});
    const std::vector<float> first = step().to_vector<float>();
    step();
    EXPECT_EQ(step().to_vector<float>(), first);
  }
}

TEST(Products, RefuseOtherRanksAndSizes) {
  EXPECT_THAT([] { mm(ones({2, 3, 4}), ones({4, 2})); }, ThrowsMessage<ShapeError>(HasSubstr("mm: a is [2, 3, 4]")));
  EXPECT_THAT([] { bmm(ones({2, 3, 4}), ones({3, 4, 2})); }, ThrowsMessage<ShapeError>(HasSubstr("do not fit")));
  EXPECT_THAT([] { dot(ones({2}), ones({3})); }, ThrowsMessage<ShapeError>(HasSubstr("dot: a [2] and b [3]")));
  EXPECT_THAT([] { addmm(ones({3, 2}), ones({2, 3}), ones({3, 2})); }, ThrowsMessage<ShapeError>(HasSubstr("addmm")));
  EXPECT_THAT([] { tensordot(ones({2, 3}), ones({2, 3}), 1); }, ThrowsMessage<ShapeError>(HasSubstr("differ")));
  EXPECT_THAT(
      [] {
        multi_dot({ones({2, 3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("got 1 matrices; wanted at least two")));
  EXPECT_THAT([] { multi_dot({ones({2, 3}), ones({2, 3})}); }, ThrowsMessage<ShapeError>(HasSubstr("do not fit")));
  EXPECT_THAT([] { cross(ones({2, 4}), ones({2, 4})); }, ThrowsMessage<ShapeError>(HasSubstr("three elements")));
  EXPECT_THAT([] { matrix_power(ones({2, 3}), 2); }, ThrowsMessage<ShapeError>(HasSubstr("wanted square matrices")));
  EXPECT_THROW(matmul(ones({2, 2}, boolean), ones({2, 2}, boolean)), DtypeError);
}

TEST(Products, BetaZeroIgnoresTheInput) {
  const Tensor a = ones({2, 2}), nan = full({2, 2}, kNaN);
  expect_close(addmm(nan, a, a, 0), {2, 2, 2, 2}, 0);
  EXPECT_EQ(addmm(ones({2, 2}, i32), ones({2, 2}, i32), ones({2, 2}, i32)).dtype(), i32);
}

TEST(Products, IntegerPowersWrapAround) {
  const Tensor x = from_vector<std::int32_t>({3, 1, 0, 3}, {2, 2});
  EXPECT_EQ(matrix_power(x, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 6, 0, 9}));
  EXPECT_EQ(matrix_power(x, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 0, 1}));
  const Tensor big = full({1, 3}, 127, i8);
  EXPECT_EQ(matmul(big, big.t()).item<int>(), static_cast<std::int8_t>(127 * 127 * 3));
}

}  // namespace
}  // namespace etna
