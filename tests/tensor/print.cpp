#include <cmath>
#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

namespace etna {
namespace {

template <typename T>
std::string print(const std::vector<T>& values, Shape shape, DType dtype = dtype_of<T>()) {
  return from_vector(values, shape).to(dtype).str();
}

TEST(Print, FloatsHaveFourDigits) {
  EXPECT_EQ(print<float>({1.5, -2, 3.14159F}, {3}), "tensor([ 1.5000, -2.0000,  3.1416])");
  EXPECT_EQ(print<float>({1.5, 2, 3, 4}, {2, 2}), "tensor([[1.5000, 2.0000],\n        [3.0000, 4.0000]])");
}

TEST(Print, WholeFloatsHaveAPointAndNoDigits) {
  EXPECT_EQ(print<float>({1, 2, 3, 4}, {2, 2}), "tensor([[1., 2.],\n        [3., 4.]])");
  EXPECT_EQ(print<float>({0, -10}, {2}), "tensor([  0., -10.])");
  EXPECT_EQ(print<float>({0, 0}, {2}), "tensor([0., 0.])");
}

TEST(Print, ValuesFarApartAreScientific) {
  EXPECT_EQ(print<float>({1e-5F, 1}, {2}), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(print<float>({1.5, 20000}, {2}), "tensor([1.5000e+00, 2.0000e+04])");
  EXPECT_EQ(print<float>({2e8F}, {1}), "tensor([2.0000e+08])");
  EXPECT_EQ(print<float>({1, 2000}, {2}), "tensor([1.0000e+00, 2.0000e+03])");
}

TEST(Print, WhatIsNoNumberShows) {
  EXPECT_EQ(print<float>({1.5, NAN, INFINITY, -INFINITY}, {4}), "tensor([1.5000,    nan,    inf,   -inf])");
  EXPECT_EQ(print<float>({1, NAN}, {2}), "tensor([1., nan])");
  EXPECT_EQ(print<float>({NAN}, {1}), "tensor([nan])");
}

TEST(Print, IntegersAndBoolsHaveNoPoint) {
  EXPECT_EQ(print<std::int64_t>({1, -20, 300}, {3}), "tensor([  1, -20, 300])");
  EXPECT_EQ(print<bool>({true, false}, {2}), "tensor([ True, False])");
  EXPECT_EQ(print<std::int64_t>({INT64_MAX, INT64_MIN}, {2}), "tensor([ 9223372036854775807, -9223372036854775808])");
}

TEST(Print, OtherDtypesAreNamed) {
  EXPECT_EQ(print<float>({1.5}, {1}, f16), "tensor([1.5000], dtype=f16)");
  EXPECT_EQ(print<float>({1.5}, {1}, bf16), "tensor([1.5000], dtype=bf16)");
  EXPECT_EQ(print<double>({0.1}, {1}), "tensor([0.1000], dtype=f64)");
  EXPECT_EQ(print<std::int32_t>({7}, {1}), "tensor([7], dtype=i32)");
  EXPECT_EQ(print<std::uint8_t>({255}, {1}), "tensor([255], dtype=u8)");
}

TEST(Print, OneNumberAndNothing) {
  EXPECT_EQ(scalar(1.5).str(), "tensor(1.5000)");
  EXPECT_EQ(scalar(3, {i64}).str(), "tensor(3)");
  EXPECT_EQ(scalar(2).str(), "tensor(2.)");
  EXPECT_EQ(empty({0}).str(), "tensor([])");
  EXPECT_EQ(empty({0, 3}).str(), "tensor([], size=[0, 3])");
  EXPECT_EQ(empty({0}, {i64}).str(), "tensor([], dtype=i64)");
  EXPECT_EQ(Tensor().str(), "tensor(undefined)");
}

TEST(Print, DimensionsAreSetApart) {
  EXPECT_EQ(arange(0, 8).reshape({2, 2, 2}).str(),
            "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])");
  EXPECT_EQ(ones({1, 2, 1, 2}).str(), "tensor([[[[1., 1.]],\n\n         [[1., 1.]]]])");
}

TEST(Print, LongTensorsShowTheirEnds) {
  EXPECT_EQ(arange(0, 1001).str(), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(arange(0, 10000).reshape({100, 100}).str(),
            "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
            "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
            "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
            "        ...,\n"
            "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n"
            "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n"
            "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])");
  EXPECT_EQ(zeros({2, 600}).str(), "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.]])");
}

TEST(Print, LongRowsAreBroken) {
  EXPECT_EQ(arange(0, 30).str(),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

TEST(Print, ViewsPrintWhatTheyShow) {
  EXPECT_EQ(arange(0, 6).reshape({2, 3}).t().str(), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  EXPECT_EQ(scalar(4, {i64}).expand({3}).str(), "tensor([4, 4, 4])");
}

TEST(Print, GradientsAndDevicesAreNamed) {
  Tensor x = ones({2});
  x.requires_grad_();
  EXPECT_EQ(x.str(), "tensor([1., 1.], requires_grad=True)");
  if (std::getenv("ETNA_TEST_VULKAN") != nullptr) {
    EXPECT_EQ(ones({2}, {f32, kVulkan}).str(), "tensor([1., 1.], device='vulkan:0')");
    EXPECT_EQ(ones({40, 40}, {f16, kVulkan}).slice(0, 0, 2).str(),
              "tensor([[1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
              "         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
              "         1., 1., 1., 1.],\n"
              "        [1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
              "         1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
              "         1., 1., 1., 1.]], device='vulkan:0', dtype=f16)");
  }
}

TEST(Print, StreamsTakeTensors) {
  std::ostringstream out;
  out << scalar(1.25);
  EXPECT_EQ(out.str(), "tensor(1.2500)");
}

}  // namespace
}  // namespace etna
