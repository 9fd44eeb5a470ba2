#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/rearrange/rearrange.h>
#include <etna/tensor/ops/resample/resample.h>
#include <nn/on_device.h>

namespace etna {
namespace {

class Images : public OnDevice {
 protected:
  static Tensor draw(Shape shape) { return randn(shape, {f32, device()}); }
};

TEST_P(Images, ChannelsLastStayChannelsLast) {
  const Tensor last = draw({2, 4, 6, 3}), x = last.permute({0, 3, 1, 2}), dense = x.contiguous();
  const auto check = [&](auto f) {
    const Tensor y = f(x), wanted = f(dense);
    expect_near(y, wanted, 1e-6);
    EXPECT_TRUE(y.permute({0, 2, 3, 1}).is_contiguous());
    EXPECT_TRUE(wanted.is_contiguous());
  };
  check([](const Tensor& t) { return max_pool2d(t, 3, 2, 1); });
  check([](const Tensor& t) { return avg_pool2d(t, 2); });
  check([](const Tensor& t) { return pad(t, {1, 2}, PadMode::reflect); });
  check([](const Tensor& t) { return batch_norm(t, {}, {}, {}, {}, true); });
}

TEST_P(Images, RefuseWindowsThatDoNotFit) {
  const Tensor x = draw({1, 1, 4, 5});
  EXPECT_THROW(max_pool2d(x, 5), ShapeError);
  EXPECT_THROW(max_pool2d(x, 3, 0), ShapeError);
  EXPECT_THROW(max_pool2d(x, 2, 2, 2), ShapeError);
  EXPECT_THROW(max_pool2d(x, {1, 2, 3}), ShapeError);
  EXPECT_THROW(max_pool2d(x, 2, 1, 0, std::int64_t{1} << 40), ShapeError);
  EXPECT_THROW(max_pool3d(draw({2, 3}), 2), ShapeError);
  EXPECT_THROW(max_pool2d(x.to(i32), 2), DtypeError);
  EXPECT_THROW(avg_pool2d(x, 2, 1, 0, false, true, 0), ShapeError);
  EXPECT_THROW(avg_pool2d(x.to(i32), 2), DtypeError);
  EXPECT_THROW(adaptive_avg_pool2d(x, -2), ShapeError);
  EXPECT_THROW(adaptive_max_pool2d(draw({1, 1, 0, 5}), 2), ShapeError);
  EXPECT_THROW(max_unpool2d(x, x, 2), ShapeError);
  EXPECT_THROW(max_pool2d(Tensor(), 2), UndefinedTensor);
  EXPECT_EQ(adaptive_avg_pool2d(x, {0, 2}).shape(), Shape({1, 1, 0, 2}));
  EXPECT_EQ(max_pool2d(draw({0, 3, 4, 4}), 2).shape(), Shape({0, 3, 2, 2}));
  EXPECT_EQ(max_pool2d(x, {4, 1}, {1 << 30, 1}).shape(), Shape({1, 1, 1, 5}));
}

TEST_P(Images, RefusePaddingThatDoesNotFit) {
  const Tensor x = draw({2, 3});
  EXPECT_THROW(pad(x, {1}), ShapeError);
  EXPECT_THROW(pad(x, {0, 0, 0, 0, 1, 1}), ShapeError);
  EXPECT_THROW(pad(x, {-2, -2}), ShapeError);
  EXPECT_THROW(pad(x, {3, 0}, PadMode::reflect), ShapeError);
  EXPECT_THROW(pad(x, {4, 0}, PadMode::circular), ShapeError);
  EXPECT_THROW(pad(draw({2, 0}), {1, 0}, PadMode::replicate), ShapeError);
  EXPECT_THROW(pad(x.to(i64), {1, 0}, PadMode::reflect), DtypeError);
  EXPECT_EQ(pad(x, {-3, 0}).shape(), Shape({2, 0}));
  EXPECT_EQ(pad(x, {-2, 1}, PadMode::replicate)[0].to_vector<float>(),
            std::vector<float>({x[0][2].item(), x[0][2].item()}));
  const Tensor counted = arange(3).to(device());
  EXPECT_EQ(pad(counted, {2, 1}, PadMode::circular).to_vector<int>(), std::vector<int>({1, 2, 0, 1, 2, 0}));
}

TEST_P(Images, RefuseSizesThatDoNotFit) {
  const Tensor x = draw({1, 2, 4, 4});
  EXPECT_THROW(interpolate(x, 3, Interpolation::linear), ShapeError);
  EXPECT_THROW(interpolate(x, 0), ShapeError);
  EXPECT_THROW(interpolate(x, {2, 2, 2}), ShapeError);
  EXPECT_THROW(interpolate(x, InterpolateOptions{}), ShapeError);
  EXPECT_THROW(interpolate(x, InterpolateOptions{.scale_factor = {std::nan("")}}), ShapeError);
  EXPECT_THROW(interpolate(x, InterpolateOptions{.scale_factor = {1e300}}), ShapeError);
  EXPECT_THROW(interpolate(x, 3, Interpolation::nearest, true), ShapeError);
  EXPECT_THROW(pixel_shuffle(x, 2), ShapeError);
  EXPECT_THROW(pixel_unshuffle(x, 3), ShapeError);
  EXPECT_THROW(channel_shuffle(x, 3), ShapeError);
  EXPECT_THROW(grid_sample(x, draw({2, 3, 3, 2})), ShapeError);
  EXPECT_THROW(affine_grid(draw({1, 2, 2}), {1, 1, 2, 2}), ShapeError);
  EXPECT_EQ(grid_sample(x, draw({1, 0, 3, 2})).shape(), Shape({1, 2, 0, 3}));
}

TEST_P(Images, SamplingSurvivesPositionsThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Tensor x = draw({1, 1, 2, 2});
  const Tensor grid = from_vector<float>({nan, 0, infinity, 0, -infinity, 1e30f}, {1, 1, 3, 2}, device());
  for (GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
    for (GridSampleMode mode : {GridSampleMode::bilinear, GridSampleMode::nearest})
      EXPECT_EQ(grid_sample(x, grid, mode, padding).numel(), 3);
  }
  EXPECT_EQ(grid_sample(x, grid).to_vector<float>(), std::vector<float>(3, 0.0f));
}

TEST_P(Images, BatchNormKeepsDigitsFarFromZero) {
  // Mean 10^4, standard deviation 1, many elements in many chunks.
  const Tensor noise = draw({16, 2, 64 * 64}), x = noise + 1e4;
  const Tensor exact = x.to(kCPU).to(f64), centered = exact - mean(exact, {0, 2}, true);
  const Tensor wanted = centered / sqrt(mean(square(centered), {0, 2}, true) + 1e-5);
  expect_near(batch_norm(x, {}, {}, {}, {}, true).to(kCPU).to(f64), wanted, 2e-3);
  const Tensor columns = x.permute({0, 2, 1}).contiguous().permute({0, 2, 1});
  expect_near(batch_norm(columns, {}, {}, {}, {}, true).to(kCPU).to(f64), wanted, 2e-3);
}

TEST_P(Images, BatchNormRefusesWhatItCannotNormalize) {
  const Tensor x = draw({1, 3});
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}, true), ShapeError);
  EXPECT_THROW(batch_norm(x, {}, {}), ShapeError);
  EXPECT_THROW(batch_norm(draw({3}), {}, {}, {}, {}, true), ShapeError);
  EXPECT_THROW(batch_norm(draw({2, 3}), {}, {}, draw({2}), {}, true), ShapeError);
  EXPECT_THROW(batch_norm(draw({2, 3}).to(i32), {}, {}, {}, {}, true), DtypeError);
  EXPECT_THROW(instance_norm(draw({2, 3, 1})), ShapeError);
  EXPECT_THROW(group_norm(draw({2, 3, 2}), 2), ShapeError);
  EXPECT_THROW(group_norm(draw({2, 4, 2}), 2, draw({2})), ShapeError);
  EXPECT_THROW(local_response_norm(draw({2, 3}), 3), ShapeError);
}

TEST_P(Images, RearrangingRefusesWhatDoesNotFit) {
  const Tensor x = draw({2, 3});
  EXPECT_THROW(flip(x, {0, 0}), ShapeError);
  EXPECT_THROW(flip(x, 2), ShapeError);
  EXPECT_THROW(roll(x, {1, 2}, 0), ShapeError);
  EXPECT_THROW(rot90(x, 1, {0, -2}), ShapeError);
  EXPECT_THROW(movedim(x, {0, 0}, {0, 1}), ShapeError);
  EXPECT_THROW(diagonal(x, 0, 1, 1), ShapeError);
  EXPECT_THROW(diag(draw({1, 2, 3})), ShapeError);
  EXPECT_THROW(repeat(x, 2), ShapeError);
  EXPECT_THROW(repeat(x, {2, -1}), ShapeError);
  EXPECT_THROW(repeat(x, {std::int64_t{1} << 62, 4}), ShapeError);
  EXPECT_THROW(narrow(x, 1, 2, 2), ShapeError);
  EXPECT_THROW(unflatten(x, 1, {2, -1}), ShapeError);
  EXPECT_THROW(hstack({}), ShapeError);
  EXPECT_THROW(meshgrid({x}), ShapeError);
  EXPECT_THROW(one_hot(x), DtypeError);
  EXPECT_EQ(repeat(draw({1, 2, 1, 2, 1, 2}), {2, 2, 2, 2, 2, 2}).shape(), Shape({2, 4, 2, 4, 2, 4}));
  EXPECT_EQ(diagonal(x, 5).shape(), Shape({0}));
  const Tensor index = from_vector<std::int64_t>({0, 3}, device());
  EXPECT_THROW(one_hot(index, 3).to(kCPU), IndexError);
  auto step = capture([](const Tensor& i) { return one_hot(i); }, {.device = device()});
  step(index);
  EXPECT_THROW(step(index), CaptureError);
}

ETNA_ON_EVERY_DEVICE(Images);

}  // namespace
}  // namespace etna
