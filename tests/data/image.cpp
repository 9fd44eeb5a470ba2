#include <etna/data/vision.h>

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

#include "runner/libraries.h"
#include "tensor/file_bytes.h"

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kFiles = ETNA_SOURCE_DIR "/tests/data/files/";

/// What the JPEG files show: channel 0 grows to the right, channel 1 downwards, channel 2 falls.
Tensor picture(std::int64_t channels, std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> values;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        values.push_back(static_cast<std::uint8_t>(c == 0 ? 8 * x : c == 1 ? 8 * y : c == 2 ? 255 - 4 * x - 4 * y : 9));
  return from_vector(values, {channels, height, width});
}

void expect_near(const Tensor& got, const Tensor& want, int tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const auto a = got.to_vector<int>(), b = want.to_vector<int>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(Image, PngComesBackBitForBit) {
  if (!kHasPng) GTEST_SKIP() << "this build has no libpng";
  const TemporaryFolder folder;
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = picture(channels, 5, 7);
    write_png(folder / "x.png", image);
    expect_near(read_image(folder / "x.png"), image, 0);
    EXPECT_EQ(read_image(folder / "x.png", ImageMode::gray).shape(), Shape({1, 5, 7}));
    EXPECT_EQ(read_image(folder / "x.png", ImageMode::rgb).shape(), Shape({3, 5, 7}));
  }
  write_png(folder / "flat.png", picture(1, 5, 7).squeeze(0));
  expect_near(read_image(folder / "flat.png", ImageMode::rgb), picture(1, 5, 7).expand({3, 5, 7}), 0);
  write_png(folder / "gray.png", picture(1, 5, 7).expand({3, 5, 7}));
  expect_near(read_image(folder / "gray.png", ImageMode::gray), picture(1, 5, 7), 0);
  EXPECT_THROW(write_png(folder / "x.png", ones({3, 2, 2})), DtypeError);
  EXPECT_THROW(write_png(folder / "x.png", zeros({5, 2, 2}, u8)), ShapeError);
  EXPECT_THROW(write_png(folder / "x.png", zeros({3, 0, 2}, u8)), ShapeError);
}

TEST(Image, JpegIsReadWithinItsLoss) {
  if (!kHasJpeg) GTEST_SKIP() << "this build has no libjpeg";
  expect_near(read_image(kFiles + "gray.jpg"), picture(1, 9, 13), 3);
  expect_near(read_image(kFiles + "rgb.jpg"), picture(3, 11, 19), 8);
  expect_near(read_image(kFiles + "progressive.jpg"), picture(3, 11, 19), 8);
  EXPECT_EQ(read_image(kFiles + "rgb.jpg", ImageMode::gray).shape(), Shape({1, 11, 19}));
  expect_near(read_image(kFiles + "gray.jpg", ImageMode::rgb), picture(1, 9, 13).expand({3, 9, 13}), 3);
  EXPECT_THAT([] { read_image(kFiles + "cmyk.jpg"); }, ThrowsMessage<FormatError>(HasSubstr("CMYK")));
}

/// A JPEG file with an EXIF segment. @param big the order of bytes in it
std::string with_orientation(const std::string& jpeg, int orientation, bool big) {
  const auto number = [big](std::size_t value, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * (big ? count - 1 - i : i) & 255);
    return bytes;
  };
  const std::string entry =
      number(0x0112, 2) + number(3, 2) + number(1, 4) + number(static_cast<std::size_t>(orientation), 2) + number(0, 2);
  const std::string other = number(0x010f, 2) + number(3, 2) + number(1, 4) + number(5, 2) + number(0, 2);
  const std::string tiff =
      (big ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) + other + entry + number(0, 4);
  const std::string exif = std::string("Exif\0\0", 6) + tiff;
  const std::size_t size = exif.size() + 2;
  return jpeg.substr(0, 2) + "\xff\xe1" + static_cast<char>(size >> 8) + static_cast<char>(size & 255) + exif +
         jpeg.substr(2);
}

TEST(Image, CamerasPicturesAreTurnedUpright) {
  if (!kHasJpeg) GTEST_SKIP() << "this build has no libjpeg";
  const TemporaryFolder folder;
  const std::string jpeg = bytes_of(kFiles + "rgb.jpg");
  const Tensor image = read_image(kFiles + "rgb.jpg"), turned = image.transpose(1, 2);
  const Tensor upright[] = {image,  image.flip({2}),  image.flip({1, 2}),  image.flip({1}),
                            turned, turned.flip({2}), turned.flip({1, 2}), turned.flip({1})};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big : {false, true}) {
      std::ofstream(folder / "x.jpg", std::ios::binary) << with_orientation(jpeg, orientation, big);
      expect_near(read_upright_image(folder / "x.jpg"), upright[orientation - 1], 0);
      expect_near(read_image(folder / "x.jpg"), image, 0);
    }
  }
  for (const int none : {0, 9, 65535}) {
    std::ofstream(folder / "x.jpg", std::ios::binary) << with_orientation(jpeg, none, true);
    expect_near(read_upright_image(folder / "x.jpg"), image, 0);
  }
  expect_near(read_upright_image(kFiles + "rgb.jpg"), image, 0);
  // Damaged segments are none: each byte of one, and each length.
  const std::string exif = with_orientation(jpeg, 6, false);
  for (std::size_t i = 2; i < 60; ++i) {
    for (const char byte : {'\0', '\xff'}) {
      std::string damaged = exif;
      damaged[i] = byte;
      std::ofstream(folder / "x.jpg", std::ios::binary) << damaged;
      try {
        read_upright_image(folder / "x.jpg");
      } catch (const FormatError&) {  // NOLINT: libjpeg refuses some
      }
    }
  }
}

TEST(Image, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_image(folder.write("x.png", "GIF89a")); },
              ThrowsMessage<FormatError>(HasSubstr("neither a PNG nor a JPEG")));
  EXPECT_THROW(read_image(folder.write("x.png", "")), FormatError);
  EXPECT_THROW(read_image(folder.path()), FormatError);
}

TEST(Image, SurvivesDamage) {
  if (!kHasPng || !kHasJpeg) GTEST_SKIP() << "this build has no libpng or no libjpeg";
  const TemporaryFolder folder;
  write_png(folder / "x.png", picture(3, 9, 11));
  const auto read = [](const auto& path) { read_image(path); };
  expect_safe_on_damage(bytes_of(folder / "x.png"), read);
  for (const char* file : {"gray.jpg", "rgb.jpg", "progressive.jpg"})
    expect_safe_on_damage(bytes_of(kFiles + file), read);
}

TEST(Image, HugeSizesAreRefusedBeforeMemoryIsTaken) {
  if (!kHasJpeg) GTEST_SKIP() << "this build has no libjpeg";
  const TemporaryFolder folder;
  std::string jpeg = bytes_of(kFiles + "gray.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");
  for (int i = 5; i < 9; ++i) jpeg[frame + static_cast<std::size_t>(i)] = '\xfe';
  EXPECT_THAT([&] { read_image(folder.write("x.jpg", jpeg)); }, ThrowsMessage<FormatError>(HasSubstr("claims 65278")));
}

}  // namespace
}  // namespace etna::data
