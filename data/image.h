#pragma once

#include <cstddef>
#include <span>

#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

/// Pictures as u8 [C, H, W]: C is 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha). PNG by libpng, JPEG by
/// libjpeg; a build without one of them says so in the error.
namespace etna::data {

/// The channels wanted; `unchanged` keeps the file's. Palettes and fewer than eight bits become plain channels, sixteen
/// bits become eight. Gray of RGB is 0.299 R + 0.587 G + 0.114 B; alpha is dropped, not blended.
enum class ImageMode { unchanged, gray, rgb };

/// Reads a PNG or JPEG file; its first bytes tell which.
/// @throws FormatError for a file that is missing, damaged, cut short, of another format, or has more than 2^28 pixels
Tensor read_image(const FilePath& path, ImageMode mode = ImageMode::unchanged);
/// The same from memory. @throws FormatError with text that fits after "FILE: "
Tensor decode_image(std::span<const std::byte> bytes, ImageMode mode = ImageMode::unchanged);

/// Writes u8 [C, H, W] or [H, W], atomically. @throws DtypeError, ShapeError for another tensor; FormatError if the
/// file cannot be written
void write_png(const FilePath& path, const Tensor& image);

}  // namespace etna::data
