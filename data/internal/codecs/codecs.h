#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Pictures in memory, by libpng and libjpeg.
namespace etna::data::codecs {

/// More than this is taken for a damaged or hostile file.
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28;

/// Rows of pixels, channels side by side.
struct Pixels {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> values;
};

/// @param most pixels @throws FormatError with text that fits after "FILE: "
Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t most = kMostPixels);
/// @param channels 1 or 3: what libjpeg should make; 0: what the file has
Pixels decode_jpeg(std::span<const std::byte> bytes, int channels, std::uint64_t most = kMostPixels);
/// @throws FormatError for a picture of too many
void check_pixels(std::uint64_t height, std::uint64_t width, std::uint64_t most);
/// The EXIF orientation of a JPEG file, 1 to 8; 1 where it says none, and for other files.
int exif_orientation(std::span<const std::byte> bytes);
std::string encode_png(const Pixels& pixels);

}  // namespace etna::data::codecs
