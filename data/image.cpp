#include <etna/data/vision.h>

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/data/internal/codecs/codecs.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/op.h>

namespace etna::data {
namespace {

/// ITU-R BT.601 in 16 bits, as libjpeg and most programs have it.
std::uint8_t luminance(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

/// [C, H, W] of rows of pixels.
Tensor planes_of(const codecs::Pixels& pixels, ImageMode mode) {
  const bool colors = pixels.channels >= 3;
  const std::int64_t channels = mode == ImageMode::unchanged ? pixels.channels : mode == ImageMode::gray ? 1 : 3;
  const std::int64_t count = pixels.height * pixels.width;
  Tensor image = empty({channels, pixels.height, pixels.width}, u8);
  auto* to = image.mutable_data<std::uint8_t>();
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::uint8_t* from = pixels.values.data();
    const std::int64_t source = mode == ImageMode::rgb && !colors ? 0 : c;
    if (mode == ImageMode::gray && colors) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = luminance(from + i * pixels.channels);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[c * count + i] = from[i * pixels.channels + source];
    }
  }
  return image;
}

}  // namespace

void codecs::check_pixels(std::uint64_t height, std::uint64_t width, std::uint64_t most) {
  if (height * width > most)
    throw FormatError(fmt::format("has {} x {} pixels; at most {} are read", width, height, most));
}

Tensor decode_image(std::span<const std::byte> bytes, ImageMode mode, std::uint64_t most_pixels) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return planes_of(codecs::decode_png(bytes, most_pixels), mode);
  if (text.starts_with("\xff\xd8\xff")) {
    const int channels = mode == ImageMode::unchanged ? 0 : mode == ImageMode::gray ? 1 : 3;
    return planes_of(codecs::decode_jpeg(bytes, channels, most_pixels), mode);
  }
  throw FormatError("is neither a PNG nor a JPEG file, by its first bytes");
}

namespace {

template <typename Read>
Tensor read_picture(const FilePath& path, Read read) {
  const io::MappedFile file(path, "a picture");
  try {
    return read(std::span<const std::byte>(file.bytes(), file.size()));
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

/// A picture whose first line and column are where EXIF's orientation says that they are.
Tensor upright(const Tensor& image, int orientation) {
  const Tensor turned = orientation >= 5 ? image.transpose(1, 2) : image;
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool upside_down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirrored && upside_down) return turned.flip({1, 2}).contiguous();
  return (mirrored ? turned.flip({2}) : upside_down ? turned.flip({1}) : turned).contiguous();
}

}  // namespace

Tensor read_image(const FilePath& path, ImageMode mode) {
  return read_picture(path, [&](std::span<const std::byte> bytes) { return decode_image(bytes, mode); });
}

Tensor decode_upright_image(std::span<const std::byte> bytes, ImageMode mode, std::uint64_t most_pixels) {
  const GradMode off(false);
  return upright(decode_image(bytes, mode, most_pixels), codecs::exif_orientation(bytes));
}

Tensor read_upright_image(const FilePath& path, ImageMode mode) {
  return read_picture(path, [&](std::span<const std::byte> bytes) { return decode_upright_image(bytes, mode); });
}

void write_png(const FilePath& path, const Tensor& image) {
  if (image.dtype() != u8) {
    throw DtypeError(fmt::format("write_png: takes u8, not {}; for numbers in [0, 1] write (x * 255).round().to(u8)",
                                 name(image.dtype())));
  }
  const bool flat = image.dim() == 2;
  const std::int64_t channels = flat ? 1 : image.dim() == 3 ? image.size(0) : 0;
  if (channels < 1 || channels > 4 || image.numel() == 0 || image.size(-1) > 1'000'000 || image.size(-2) > 1'000'000) {
    throw ShapeError(
        fmt::format("write_png: takes [H, W] or [C, H, W] with 1 to 4 channels and 1 to 1,000,000 rows and "
                    "columns, not {}",
                    str(image.shape())));
  }
  const GradMode off(false);
  const Tensor host = (flat ? image.unsqueeze(0) : image).permute({1, 2, 0}).contiguous().to(kCPU);
  const auto* values = host.data<std::uint8_t>();
  codecs::Pixels pixels{host.size(0), host.size(1), channels, {}};
  pixels.values.assign(values, values + host.numel());
  std::string png;
  try {
    png = codecs::encode_png(pixels);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
  io::AtomicFile file(path);
  file.write(png);
  file.finish();
}

}  // namespace etna::data
