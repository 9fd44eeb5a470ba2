#include <gmock/gmock.h>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;

template <typename F>
void expect_shape_error(F f, const char* why) {
  EXPECT_THAT(f, testing::ThrowsMessage<ShapeError>(testing::HasSubstr(why)));
}

// The example of PyTorch's page on Tensor.unfold().
TEST(SlidingWindows, AreThoseOfPyTorchsExample) {
  for (Device device : devices()) {
    const Tensor x = arange(1, 8).to(device);
    EXPECT_EQ(sliding_windows(x, 0, 2, 1).shape(), (Shape{6, 2}));
    EXPECT_EQ(sliding_windows(x, 0, 2, 1).to_vector<double>(),
              (std::vector<double>{1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7}));
    EXPECT_EQ(sliding_windows(x, 0, 2, 2).to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(SlidingWindows, AgreeWithLoopsOverStridesAndDtypes) {
  for (Device device : devices()) {
    for (DType t : kAllDTypes) {
      const Tensor x = random_tensor({3, 40, 10}, t).permute({2, 1, 0}).slice(1, 1, 38, 2).to(device);
      const std::int64_t n = x.size(1), size = 6, step = 4, count = (n - size) / step + 1;
      const Tensor y = sliding_windows(x, 1, size, step);
      ASSERT_EQ(y.shape(), (Shape{10, count, 3, size}));
      const std::vector<double> from = x.to(kCPU).contiguous().to_vector<double>(), got = y.to_vector<double>();
      std::size_t at = 0;
      for (std::int64_t a = 0; a < 10; ++a) {
        for (std::int64_t w = 0; w < count; ++w) {
          for (std::int64_t c = 0; c < 3; ++c) {
            for (std::int64_t i = 0; i < size; ++i)
              ASSERT_EQ(got[at++], from[static_cast<std::size_t>((a * n + w * step + i) * 3 + c)]) << name(t);
          }
        }
      }
    }
  }
}

// Each element of a sum of windows of ones is the number of windows that hold it.
TEST(OverlapAdd, CountsTheWindowsThatHoldAnElement) {
  for (Device device : devices()) {
    const Tensor windows = ones({2, 3, 4}, {f32, device});
    EXPECT_EQ(overlap_add(windows, 1, 2).to_vector<double>(),
              (std::vector<double>{1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1}));
    EXPECT_EQ(overlap_add(windows.slice(0, 0, 1), 1, 5, 16).to_vector<double>(),
              (std::vector<double>{1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0}));
  }
}

TEST(SlidingWindows, AreOneWhereTheStepIsLongerThanTheDimension) {
  for (Device device : devices()) {
    const Tensor x = arange(0, 5).to(device);
    for (const std::int64_t step : {5, 1 << 30}) {
      for (const std::int64_t far : {step, step << 20}) {
        const Tensor window = sliding_windows(x, 0, 3, far);
        EXPECT_EQ(window.shape(), (Shape{1, 3}));
        EXPECT_EQ(window.to_vector<double>(), (std::vector<double>{0, 1, 2}));
        EXPECT_EQ(overlap_add(window.to(f32), 0, far, 5).to_vector<double>(), (std::vector<double>{0, 1, 2, 0, 0}));
      }
    }
  }
}

TEST(SlidingWindows, SayWhatIsWrong) {
  const Tensor x = ones({2, 5});
  expect_shape_error([&] { sliding_windows(x, 1, 6); },
                     "a window of 6 elements is longer than dimension 1 of x [2, 5]");
  expect_shape_error([&] { sliding_windows(x, 1, 0); }, "size is 0 and step 1");
  expect_shape_error([&] { sliding_windows(x, 1, 2, 0); }, "size is 2 and step 0");
  expect_shape_error([&] { sliding_windows(ones({}), 0, 1); }, "0-d");
  expect_shape_error([&] { sliding_windows(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0, 1); }, "no room");
  expect_shape_error([&] { sliding_windows(x, 2, 1); }, "sliding_windows");
  expect_shape_error([&] { overlap_add(x, 0, 1, 9); }, "2 windows of 5, 1 apart, are not those of 9 elements");
  expect_shape_error([&] { overlap_add(x, 0, 0); }, "step is 0");
  expect_shape_error([&] { overlap_add(ones({5}), 0, 1); }, "overlap_add: x is [5]");
  EXPECT_THROW(overlap_add(x.to(i64), 0, 1), DtypeError);
}

}  // namespace
}  // namespace etna
