#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <etna/data/transforms.h>
#include <etna/tensor/op.h>

namespace etna::data::transforms {
namespace {

/// Fraction bits of weights; products of bytes and of weights that sum to 1 stay within 32 bits.
constexpr int kFractionBits = 22;

double filter_support(ResampleFilter filter) {
  return filter == ResampleFilter::bilinear ? 1 : filter == ResampleFilter::bicubic ? 2 : 3;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double filter_weight(ResampleFilter filter, double x) {
  x = std::abs(x);
  if (x >= filter_support(filter)) return 0;
  if (filter == ResampleFilter::bilinear) return 1 - x;
  if (filter == ResampleFilter::lanczos) return sinc(x) * sinc(x / 3);
  return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2;
}

/// The pixels that one pixel of the result is made of, from `first` on, and their weights in fixed point.
struct WeightedPixels {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<WeightedPixels> weighted_pixels(std::int64_t from, std::int64_t to, ResampleFilter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
  const double support = filter_support(filter) * stretch, shrink = 1 / stretch;
  std::vector<WeightedPixels> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    WeightedPixels& own = all[static_cast<std::size_t>(i)];
    own.first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const std::int64_t end = std::min(from, static_cast<std::int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t x = own.first; x < end; ++x) {
      weights.push_back(filter_weight(filter, (static_cast<double>(x) - center + 0.5) * shrink));
      sum += weights.back();
    }
    for (const double weight : weights)
      own.weights.push_back(static_cast<std::int32_t>(std::lround(weight / sum * (1 << kFractionBits))));
  }
  return all;
}

/// A dimension of a picture in memory, and the lines along it.
struct LinesAlong {
  std::int64_t step = 1;  ///< between neighbours along the dimension
  std::int64_t lines = 0, from_line = 0, to_line = 0;
};

void resample_along(const LinesAlong& along, const std::vector<WeightedPixels>& pixels, const std::uint8_t* from,
                    std::uint8_t* to) {
  const auto count = static_cast<std::int64_t>(pixels.size());
  const auto write = [&](std::int64_t line, std::int64_t i) {
    const WeightedPixels& own = pixels[static_cast<std::size_t>(i)];
    const std::uint8_t* at = from + line * along.from_line + own.first * along.step;
    std::int32_t sum = 1 << (kFractionBits - 1);
    for (const std::int32_t weight : own.weights) {
      sum += weight * *at;
      at += along.step;
    }
    to[line * along.to_line + i * along.step] = static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
  };
  // Memory is read in its order.
  if (along.step == 1) {
    for (std::int64_t line = 0; line < along.lines; ++line)
      for (std::int64_t i = 0; i < count; ++i) write(line, i);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t line = 0; line < along.lines; ++line) write(line, i);
  }
}

}  // namespace

Transform resample(std::int64_t height, std::int64_t width, ResampleFilter filter) {
  if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
    throw Error(fmt::format("resample: {} x {} is not the size of a picture", height, width));
  return [=](const Tensor& given) {
    if (!given.defined() || given.dim() != 3 || given.numel() == 0)
      throw ShapeError(fmt::format("resample: takes a picture [C, H, W] with sizes above 0, got {}",
                                   given.defined() ? str(given.shape()) : "an undefined tensor"));
    if (given.dtype() != u8) throw DtypeError(fmt::format("resample: takes u8, not {}", name(given.dtype())));
    Tensor x = given.to(kCPU).contiguous();
    const std::int64_t channels = x.size(0), from_height = x.size(1), from_width = x.size(2);
    if (from_width != width) {
      Tensor y = empty({channels, from_height, width}, u8);
      resample_along({1, channels * from_height, from_width, width}, weighted_pixels(from_width, width, filter),
                     x.data<std::uint8_t>(), y.mutable_data<std::uint8_t>());
      x = y;
    }
    if (from_height == height) return x;
    Tensor y = empty({channels, height, width}, u8);
    const std::vector<WeightedPixels> pixels = weighted_pixels(from_height, height, filter);
    for (std::int64_t c = 0; c < channels; ++c)
      resample_along({width, width, 1, 1}, pixels, x.data<std::uint8_t>() + c * from_height * width,
                     y.mutable_data<std::uint8_t>() + c * height * width);
    return y;
  };
}

}  // namespace etna::data::transforms
