#include <etna/data/transforms.h>

#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/vision.h>
#include <etna/tensor/ops.h>

#include "runner/libraries.h"

namespace etna::data::transforms {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor picture() { return arange(24).reshape({2, 3, 4}).to(u8); }
std::vector<int> values(const Tensor& x) { return x.to_vector<int>(); }

TEST(Transforms, NumbersBecomeFloatAndNormal) {
  const Tensor x = to_float()(full({1, 1, 2}, 51, u8));
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(2, 51.0f / 255.0f));
  const Tensor y = normalize({0, 1}, {1, 2})(arange(4.0).reshape({2, 1, 2}));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>({0, 1, 0.5, 1}));
  EXPECT_EQ(normalize({1}, {2})(ones({3, 1, 1})).to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_THAT([] { normalize({1}, {2})(picture()); }, ThrowsMessage<DtypeError>(HasSubstr("put to_float() before it")));
  EXPECT_THROW(normalize({1, 2, 3}, {1, 1, 1})(ones({2, 1, 1})), ShapeError);
  EXPECT_THROW(normalize({0}, {0}), Error);
  EXPECT_THROW(normalize({0}, {1, 2}), Error);
}

TEST(Transforms, CropsKeepTheirPlace) {
  EXPECT_EQ(values(center_crop(1, 2)(picture())), std::vector<int>({5, 6, 17, 18}));
  EXPECT_EQ(values(center_crop(5, 2)(picture().slice(0, 0, 1))), std::vector<int>({0, 0, 1, 2, 5, 6, 9, 10, 0, 0}));
  EXPECT_EQ(center_crop(3, 4)(picture()).to_vector<int>(), values(picture()));
  // Halves round to even: 4 - 1 over 2 is 1.5, which gives 2; 4 - 3 over 2 is 0.5, which gives 0.
  EXPECT_EQ(values(center_crop(3, 1)(picture().slice(0, 0, 1))), std::vector<int>({2, 6, 10}));
  EXPECT_EQ(values(center_crop(1, 3)(picture().slice(0, 0, 1))), std::vector<int>({4, 5, 6}));
}

TEST(Transforms, RandomCropsReachEveryPlace) {
  std::set<std::vector<int>> seen;
  Random random(1);
  for (int i = 0; i < 500; ++i) seen.insert(values(random_crop(2, 3)(picture().slice(0, 0, 1), random)));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_TRUE(seen.contains({5, 6, 7, 9, 10, 11}));
  seen.clear();
  for (int i = 0; i < 2000; ++i)
    seen.insert(values(random_crop(3, 4, {.padding = 1, .fill = 99})(picture().slice(0, 0, 1), random)));
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_TRUE(seen.contains({99, 99, 99, 99, 99, 0, 1, 2, 99, 4, 5, 6}));
  EXPECT_THAT([] { random_crop(5)(picture()); }, ThrowsMessage<ShapeError>(HasSubstr("set pad_if_needed")));
  EXPECT_EQ(random_crop(5, 5, {.pad_if_needed = true})(picture()).shape(), Shape({2, 5, 5}));
  EXPECT_THROW(random_crop(0), Error);
  EXPECT_THROW(random_crop(2, {.padding = -1}), Error);
}

TEST(Transforms, FlipsMirror) {
  EXPECT_EQ(values(random_horizontal_flip(1)(picture().slice(1, 0, 1))),
            std::vector<int>({3, 2, 1, 0, 15, 14, 13, 12}));
  EXPECT_EQ(values(random_vertical_flip(1)(picture().slice(2, 0, 1))), std::vector<int>({8, 4, 0, 20, 16, 12}));
  EXPECT_EQ(values(random_horizontal_flip(0)(picture())), values(picture()));
  int flipped = 0;
  Random random(1);
  for (int i = 0; i < 1000; ++i) flipped += values(random_horizontal_flip()(picture(), random))[0] == 3;
  EXPECT_NEAR(flipped, 500, 60);
  EXPECT_THROW(random_horizontal_flip(1.5), Error);
}

TEST(Transforms, ResizesBytesByRounding) {
  EXPECT_EQ(values(resize(1, 2)(picture().slice(0, 0, 1))), std::vector<int>({4, 6}));
  EXPECT_EQ(values(resize(3, 4)(picture())), values(picture()));
  EXPECT_EQ(resize(7, 2, Interpolation::nearest)(picture().to(i64)).dtype(), i64);
  EXPECT_THROW(resize(2, 2)(picture().to(f64)), DtypeError);
  EXPECT_THROW(resize(0, 2), Error);
}

/// The sum of all bytes, and that of each times its place, from 1 on.
std::pair<std::int64_t, std::int64_t> sums(const Tensor& image) {
  std::pair<std::int64_t, std::int64_t> sum{0, 0};
  std::int64_t place = 0;
  for (const int value : values(image.flatten())) {
    sum.first += value;
    sum.second += ++place * value;
  }
  return sum;
}

TEST(Transforms, ResampleAsPillowDoes) {
  if (!kHasPng) GTEST_SKIP() << "this build has no libpng";
  const auto read = [](const std::string& name) {
    return read_image(ETNA_SOURCE_DIR "/tests/models/vision/" + name, ImageMode::rgb);
  };
  const auto same = [](const Tensor& image, std::int64_t sum, std::int64_t weighted) {
    EXPECT_EQ(sums(image), std::make_pair(sum, weighted));
  };
  // Sums of what Pillow 12.3 gives.
  same(resample(56, 56, ResampleFilter::bilinear)(read("gemma3/wide.png")), 1183066, 5596072124);
  same(resample(32, 48, ResampleFilter::bicubic)(read("qwen3_vl/wide.png")), 578982, 1341209176);
  same(resample(24, 16, ResampleFilter::bicubic)(read("qwen3_vl/small.png")), 76586, 45839611);
  same(resample(16, 16, ResampleFilter::lanczos)(read("smolvlm/exact.png")), 99080, 38208139);
  const Tensor even = full({2, 5, 3}, 77, u8);
  for (const ResampleFilter filter : {ResampleFilter::bilinear, ResampleFilter::bicubic, ResampleFilter::lanczos})
    for (const auto& [height, width] : {std::pair{1, 1}, std::pair{64, 7}, std::pair{5, 3}, std::pair{2, 100}})
      EXPECT_EQ(values(resample(height, width, filter)(even)), std::vector<int>(std::size_t(2 * height * width), 77));
  EXPECT_THROW(resample(0, 5), Error);
  EXPECT_THROW(resample(5, 5)(ones({1, 2, 2})), DtypeError);
  EXPECT_THROW(resample(5, 5)(zeros({3, 0, 2}, u8)), ShapeError);
  EXPECT_THROW(resample(5, 5)(zeros({2, 2}, u8)), ShapeError);
}

TEST(Transforms, StridedViewsAreReadAsTheyAre) {
  const Tensor x = picture().permute({0, 2, 1});
  EXPECT_EQ(values(random_horizontal_flip(1)(x)), values(random_horizontal_flip(1)(x.contiguous())));
  EXPECT_EQ(values(center_crop(2, 2)(x)), values(center_crop(2, 2)(x.contiguous())));
}

TEST(Transforms, ComposeInOrderAndRefuseWhatIsNoPicture) {
  const Transform all = compose({random_crop(2), random_horizontal_flip(), to_float(), normalize({0.5}, {0.5})});
  Random one(4), same(4);
  EXPECT_EQ(all(picture(), one).to_vector<float>(), all(picture(), same).to_vector<float>());
  EXPECT_EQ(all(picture()).shape(), Shape({2, 2, 2}));
  EXPECT_THAT([] { random_crop(2)(ones({3, 3})); }, ThrowsMessage<ShapeError>(HasSubstr("takes a picture [C, H, W]")));
  EXPECT_THROW(random_horizontal_flip()(ones({1, 0, 3})), ShapeError);
  EXPECT_THROW(resize(2, 2)(Tensor()), ShapeError);
}

TEST(Transforms, OfADatasetChangeItsData) {
  const auto dataset = on_data(TensorDataset(zeros({4, 1, 2, 2}, u8), arange(4)), to_float());
  EXPECT_EQ(dataset.get(3).data.dtype(), f32);
  EXPECT_EQ(dataset.get(3).target.item<int>(), 3);
}

}  // namespace
}  // namespace etna::data::transforms
