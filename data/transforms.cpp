#include <etna/data/transforms.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <etna/tensor/op.h>

namespace etna::data::transforms {
namespace {

struct Image {
  Tensor tensor;  ///< contiguous
  std::int64_t channels, height, width;
};

Image image_of(const char* transform, const Tensor& x) {
  if (!x.defined() || x.dim() != 3 || x.numel() == 0) {
    throw ShapeError(fmt::format("{}: takes a picture [C, H, W] with sizes above 0, got {}", transform,
                                 x.defined() ? str(x.shape()) : "an undefined tensor"));
  }
  if (!x.device().is_cpu())
    throw DeviceError(fmt::format("{}: works on the CPU, before batches are moved to {}", transform, x.device().str()));
  return {x.contiguous(), x.size(0), x.size(1), x.size(2)};
}

void check_size(const char* transform, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
    throw Error(fmt::format("{}: {} x {} is not the size of a picture", transform, height, width));
}

void check_probability(const char* transform, double p) {
  if (!(p >= 0 && p <= 1)) throw Error(fmt::format("{}: p is {}; wanted 0 to 1", transform, p));
}

/// The window of height x width from (top, left) on, which may reach beyond the picture; `fill` is there.
Tensor window(const Image& image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width,
              double fill) {
  const Tensor& from = image.tensor;
  const auto item = static_cast<std::int64_t>(item_size(from.dtype()));
  const bool inside = top >= 0 && left >= 0 && height <= image.height - top && width <= image.width - left;
  const Shape shape{image.channels, height, width};
  Tensor to = inside ? empty(shape, from.dtype()) : full(shape, fill, from.dtype());
  const std::int64_t first = std::max<std::int64_t>(0, -left), last = std::min(width, image.width - left);
  if (last <= first) return to;
  const auto* source = static_cast<const std::byte*>(from.raw_data());
  auto* target = static_cast<std::byte*>(to.mutable_raw_data());
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t y = std::max<std::int64_t>(0, -top); y < std::min(height, image.height - top); ++y) {
      std::memcpy(target + ((c * height + y) * width + first) * item,
                  source + ((c * image.height + y + top) * image.width + left + first) * item,
                  static_cast<std::size_t>((last - first) * item));
    }
  }
  return to;
}

/// Copies rows in reverse order, and elements within rows.
Tensor mirrored(const Image& image, bool rows, bool columns) {
  Tensor to = empty(image.tensor.shape(), image.tensor.dtype());
  const std::size_t item = item_size(image.tensor.dtype());
  const auto width = static_cast<std::size_t>(image.width);
  const auto* source = static_cast<const std::byte*>(image.tensor.raw_data());
  auto* target = static_cast<std::byte*>(to.mutable_raw_data());
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      const auto plane = static_cast<std::size_t>(c * image.height);
      const std::byte* from =
          source + (plane + static_cast<std::size_t>(rows ? image.height - 1 - y : y)) * width * item;
      std::byte* into = target + (plane + static_cast<std::size_t>(y)) * width * item;
      if (!columns) std::memcpy(into, from, width * item);
      for (std::size_t x = 0; columns && x < width; ++x)
        std::memcpy(into + x * item, from + (width - 1 - x) * item, item);
    }
  }
  return to;
}

/// Where each output position lies between two input positions.
struct Tap {
  std::int64_t low, high;
  float weight;  ///< of `high`
};
std::vector<Tap> taps(std::int64_t from, std::int64_t to) {
  std::vector<Tap> all;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = std::max(0.0f, scale * (static_cast<float>(i) + 0.5f) - 0.5f);
    const auto low = std::min(static_cast<std::int64_t>(at), from - 1);
    all.push_back({low, std::min(low + 1, from - 1), std::clamp(at - static_cast<float>(low), 0.0f, 1.0f)});
  }
  return all;
}

template <typename T>
void interpolate(const Image& image, const std::vector<Tap>& rows, const std::vector<Tap>& columns, T* to) {
  const auto* from = image.tensor.data<T>();
  for (std::int64_t c = 0; c < image.channels; ++c, from += image.height * image.width) {
    for (const Tap& y : rows) {
      const T *upper = from + y.low * image.width, *lower = from + y.high * image.width;
      for (const Tap& x : columns) {
        const auto blend = [&](const T* row) {
          return (1 - x.weight) * static_cast<float>(row[x.low]) + x.weight * static_cast<float>(row[x.high]);
        };
        const float value = (1 - y.weight) * blend(upper) + y.weight * blend(lower);
        if constexpr (std::is_same_v<T, std::uint8_t>) {
          *to++ = static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
        } else {
          *to++ = value;
        }
      }
    }
  }
}

Tensor nearest(const Image& image, std::int64_t height, std::int64_t width) {
  Tensor to = empty({image.channels, height, width}, image.tensor.dtype());
  const std::size_t item = item_size(image.tensor.dtype());
  const auto position = [](std::int64_t i, std::int64_t from, std::int64_t count) {
    const float scale = static_cast<float>(from) / static_cast<float>(count);
    return std::min(static_cast<std::int64_t>(std::floor(static_cast<float>(i) * scale)), from - 1);
  };
  const auto* source = static_cast<const std::byte*>(image.tensor.raw_data());
  auto* target = static_cast<std::byte*>(to.mutable_raw_data());
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = (c * image.height + position(y, image.height, height)) * image.width;
      for (std::int64_t x = 0; x < width; ++x, target += item)
        std::memcpy(target, source + static_cast<std::size_t>(row + position(x, image.width, width)) * item, item);
    }
  }
  return to;
}

}  // namespace

Transform compose(std::vector<Transform> transforms) {
  return [all = std::move(transforms)](const Tensor& image, Random& random) {
    Tensor x = image;
    for (const Transform& transform : all) x = transform(x, random);
    return x;
  };
}

Transform to_float() {
  return [](const Tensor& image) {
    if (image.dtype() != u8) return image.to(f32);
    const Image from = image_of("to_float", image);
    Tensor to = empty(from.tensor.shape());
    const auto* source = from.tensor.data<std::uint8_t>();
    auto* target = to.mutable_data<float>();
    for (std::int64_t i = 0; i < to.numel(); ++i) target[i] = static_cast<float>(source[i]) / 255.0f;
    return to;
  };
}

Transform normalize(std::vector<double> mean, std::vector<double> std) {
  if (mean.empty() || mean.size() != std.size())
    throw Error(fmt::format("normalize: {} means and {} deviations; give as many of both", mean.size(), std.size()));
  for (const double deviation : std) {
    if (!(deviation > 0)) throw Error(fmt::format("normalize: the deviation {} is not above 0", deviation));
  }
  return [mean = std::move(mean), std = std::move(std)](const Tensor& image) {
    const Image from = image_of("normalize", image);
    if (image.dtype() != f32)
      throw DtypeError(fmt::format("normalize: takes f32, not {}; put to_float() before it", name(image.dtype())));
    if (mean.size() != 1 && static_cast<std::int64_t>(mean.size()) != from.channels)
      throw ShapeError(fmt::format("normalize: {} means for {} channels", mean.size(), from.channels));
    Tensor to = empty(from.tensor.shape());
    const auto* source = from.tensor.data<float>();
    auto* target = to.mutable_data<float>();
    const std::int64_t count = from.height * from.width;
    for (std::int64_t c = 0; c < from.channels; ++c) {
      const std::size_t which = mean.size() == 1 ? 0 : static_cast<std::size_t>(c);
      const auto m = static_cast<float>(mean[which]), s = static_cast<float>(std[which]);
      for (std::int64_t i = c * count; i < (c + 1) * count; ++i) target[i] = (source[i] - m) / s;
    }
    return to;
  };
}

Transform random_crop(std::int64_t height, std::int64_t width, CropOptions options) {
  check_size("random_crop", height, width);
  if (options.padding < 0 || options.padding > INT32_MAX)
    throw Error(fmt::format("random_crop: padding is {}; wanted 0 or more", options.padding));
  return [=](const Tensor& x, Random& random) {
    const Image image = image_of("random_crop", x);
    std::int64_t above = options.padding, beside = options.padding;
    if (options.pad_if_needed) {
      above += std::max<std::int64_t>(0, height - image.height - 2 * above);
      beside += std::max<std::int64_t>(0, width - image.width - 2 * beside);
    }
    const std::int64_t rows = image.height + 2 * above - height, columns = image.width + 2 * beside - width;
    if (rows < 0 || columns < 0) {
      throw ShapeError(fmt::format(
          "random_crop: {} x {} of a picture of {} x {} with padding {}; make it smaller, or set pad_if_needed", height,
          width, image.height, image.width, options.padding));
    }
    const std::int64_t top = random.below(rows + 1), left = random.below(columns + 1);
    return window(image, top - above, left - beside, height, width, options.fill);
  };
}

Transform center_crop(std::int64_t height, std::int64_t width) {
  check_size("center_crop", height, width);
  return [=](const Tensor& x) {
    const Image image = image_of("center_crop", x);
    // torchvision pads first (the odd row below and on the right), then crops at the half, rounded to even.
    const auto begin = [](std::int64_t have, std::int64_t want) {
      if (want > have) return -((want - have) / 2);
      const std::int64_t rest = have - want, half = rest / 2;
      return rest % 2 == 0 ? half : half + half % 2;
    };
    return window(image, begin(image.height, height), begin(image.width, width), height, width, 0);
  };
}

Transform random_horizontal_flip(double p) {
  check_probability("random_horizontal_flip", p);
  return [p](const Tensor& x, Random& random) {
    const Image image = image_of("random_horizontal_flip", x);
    return random.chance(p) ? mirrored(image, false, true) : x;
  };
}

Transform random_vertical_flip(double p) {
  check_probability("random_vertical_flip", p);
  return [p](const Tensor& x, Random& random) {
    const Image image = image_of("random_vertical_flip", x);
    return random.chance(p) ? mirrored(image, true, false) : x;
  };
}

Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation) {
  check_size("resize", height, width);
  return [=](const Tensor& x) {
    const Image image = image_of("resize", x);
    if (interpolation == Interpolation::nearest) return nearest(image, height, width);
    const std::vector<Tap> rows = taps(image.height, height), columns = taps(image.width, width);
    if (x.dtype() != f32 && x.dtype() != u8)
      throw DtypeError(
          fmt::format("resize: bilinear takes f32 and u8, not {}; put to_float() before it", name(x.dtype())));
    Tensor to = empty({image.channels, height, width}, x.dtype());
    if (x.dtype() == u8)
      interpolate(image, rows, columns, to.mutable_data<std::uint8_t>());
    else
      interpolate(image, rows, columns, to.mutable_data<float>());
    return to;
  };
}

}  // namespace etna::data::transforms
