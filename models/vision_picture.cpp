#include <etna/models/internal/vision_picture.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/data/transforms.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

struct PictureSize {
  std::int64_t height, width;
};

Tensor scaled_to(const VisionConfig& config, const Tensor& picture, PictureSize size) {
  return data::transforms::resample(size.height, size.width, config.filter)(picture);
}

/// Line after line of patches, in each its channels, lines and columns.
PatchGrid grid_of(const VisionConfig& config, const Tensor& picture) {
  const std::int64_t side = config.patch_size, lines = picture.size(1) / side, columns = picture.size(2) / side;
  const Tensor values =
      data::transforms::normalize(config.mean, config.deviation)(data::transforms::to_float()(picture));
  const Tensor patches = values.reshape({3, lines, side, columns, side}).permute({1, 3, 0, 2, 4});
  return {patches.reshape({lines * columns, 3 * side * side}).contiguous(), lines, columns};
}

/// To the longest edge, with an even number for the other one.
PictureSize to_longest_edge(PictureSize size, std::int64_t edge) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto even = [](double pixels) {
    const auto whole = static_cast<std::int64_t>(pixels);
    return std::max<std::int64_t>(1, whole + whole % 2);
  };
  if (size.width >= size.height) return {even(static_cast<double>(edge) / ratio), edge};
  return {edge, even(static_cast<double>(edge) * ratio)};
}

/// To whole tiles: first the longer side, by which the other one is.
PictureSize to_tiles(PictureSize size, std::int64_t tile) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto whole = [tile](std::int64_t pixels) {
    return std::max<std::int64_t>(1, (pixels + tile - 1) / tile) * tile;
  };
  if (size.width >= size.height) {
    const std::int64_t width = whole(size.width);
    return {whole(static_cast<std::int64_t>(static_cast<double>(width) / ratio)), width};
  }
  const std::int64_t height = whole(size.height);
  return {height, whole(static_cast<std::int64_t>(static_cast<double>(height) * ratio))};
}

SeenPicture tiles_of(const VisionConfig& config, const Tensor& picture) {
  const std::int64_t tile = config.image_size;
  Tensor x = scaled_to(config, picture, to_longest_edge({picture.size(1), picture.size(2)}, config.longest_edge));
  SeenPicture patches;
  if (config.splits) {
    x = scaled_to(config, x, to_tiles({x.size(1), x.size(2)}, tile));
    const std::int64_t lines = x.size(1) / tile, columns = x.size(2) / tile;
    if (lines > 1 || columns > 1) {
      patches.tile_lines = lines;
      patches.tile_columns = columns;
      for (std::int64_t y = 0; y < x.size(1); y += tile)
        for (std::int64_t at = 0; at < x.size(2); at += tile)
          patches.grids.push_back(grid_of(config, x.slice(1, y, y + tile).slice(2, at, at + tile)));
    }
  }
  patches.grids.push_back(grid_of(config, scaled_to(config, x, {tile, tile})));
  return patches;
}

/// The parts of a picture along its longer side, none where it is nearly a square or they would be too small (pan and
/// scan).
std::vector<Tensor> pan(const VisionConfig& config, const Tensor& picture) {
  const int along = picture.size(2) >= picture.size(1) ? 2 : 1;
  const std::int64_t longer = picture.size(along), shorter = picture.size(3 - along);
  const double ratio = static_cast<double>(longer) / static_cast<double>(shorter);
  if (config.pan_parts == 0 || ratio < config.pan_ratio) return {};
  const std::int64_t wanted = std::min(longer / config.pan_pixels, static_cast<std::int64_t>(std::floor(ratio + 0.5)));
  const std::int64_t count = std::clamp<std::int64_t>(wanted, 2, config.pan_parts), size = (longer + count - 1) / count;
  if (std::min(size, shorter) < config.pan_pixels) return {};
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < longer; at += size)
    parts.push_back(picture.slice(along, at, std::min(at + size, longer)));
  return parts;
}

/// To whole squares of patches, with an area between the least and the largest one.
PictureSize to_area(const VisionConfig& config, PictureSize size) {
  const auto unit = static_cast<double>(config.patch_size * config.merge);
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  if (std::max(height, width) > 200 * std::min(height, width))
    throw Error(fmt::format("an image of {} x {} pixels is too narrow; one side may be 200 times the other", size.width,
                            size.height));
  const auto most = static_cast<double>(config.most_pixels), least = static_cast<double>(config.least_pixels);
  double h = std::nearbyint(height / unit) * unit, w = std::nearbyint(width / unit) * unit;
  if (h * w > most) {
    const double shrink = std::sqrt(height * width / most);
    h = std::max(unit, std::floor(height / shrink / unit) * unit);
    w = std::max(unit, std::floor(width / shrink / unit) * unit);
  } else if (h * w < least) {
    const double grow = std::sqrt(least / (height * width));
    h = std::ceil(height * grow / unit) * unit;
    w = std::ceil(width * grow / unit) * unit;
  }
  return {std::max(static_cast<std::int64_t>(h), config.patch_size * config.merge),
          std::max(static_cast<std::int64_t>(w), config.patch_size * config.merge)};
}

}  // namespace

SeenPicture patches_of(const VisionConfig& config, const Tensor& picture) {
  if (!picture.defined() || picture.dim() != 3 || picture.size(0) != 3 || picture.numel() == 0)
    throw ShapeError(
        fmt::format("VisionModel: takes a picture [3, H, W] with sizes above 0, got {}; read it with "
                    "ImageMode::rgb",
                    picture.defined() ? str(picture.shape()) : "an undefined tensor"));
  if (picture.dtype() != u8)
    throw DtypeError(fmt::format("VisionModel: takes a picture of u8, not of {}", name(picture.dtype())));
  const Tensor x = picture.to(kCPU);
  if (config.fit == PictureFit::tiles) return tiles_of(config, x);
  const PictureSize size = config.fit == PictureFit::area ? to_area(config, {x.size(1), x.size(2)})
                                                          : PictureSize{config.image_size, config.image_size};
  SeenPicture seen{.grids = {grid_of(config, scaled_to(config, x, size))}};
  for (const Tensor& part : pan(config, x)) seen.grids.push_back(grid_of(config, scaled_to(config, part, size)));
  return seen;
}

}  // namespace etna::models
