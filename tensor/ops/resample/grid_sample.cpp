#include <array>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/resample/resample.h>

// Composed: all pixels form a table, and embedding() looks up the pixels around each position as its rows. Its gradient
// adds up equal rows in order.
namespace etna {
namespace {

/// 0, 1, ... n - 1, generated on the device, without an upload.
Tensor grid_sample_counted(std::int64_t n, DType dtype, Device device) {
  return cumsum(ones({n}, {dtype, device}), 0) - 1.0;
}

/// The largest integer not above x. NaN and numbers beyond ±10^9 become -10^9, which lies outside any image.
Tensor floor_of(const Tensor& x) {
  const Tensor near = where(isfinite(x), clamp(x.detach(), -1e9, 1e9), -1e9);
  const Tensor truncated = near.to(i32).to(x.dtype());
  return truncated - gt(truncated, near).to(x.dtype());
}

/// Rounds to the nearest integer, halves to even.
Tensor grid_sample_rounded(const Tensor& x) {
  const Tensor up = floor_of(x + 0.5), half = up * 0.5;
  const Tensor odd = ne(floor_of(half), half), tie = eq(up - x.detach(), 0.5);
  return up - (odd & tie).to(x.dtype());
}

/// Mirrors positions at low and high until they lie between.
Tensor reflected(const Tensor& x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return x * 0.0;
  const Tensor distance = abs(x - low), turns = floor_of(distance / span), rest = distance - turns * span;
  const Tensor back = ne(floor_of(turns * 0.5) * 2.0, turns);
  return where(back, span - rest, rest) + low;
}

/// Converts grid coordinates along one dimension to pixels.
Tensor pixels(const Tensor& at, std::int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  return align_corners ? (at + 1.0) * ((n - 1) / 2) : ((at + 1.0) * n - 1.0) * 0.5;
}
/// Replaces positions outside the image by the ones inside that the padding mode repeats; with zeros padding, returns
/// them unchanged.
Tensor grid_sample_padded(const Tensor& at, std::int64_t size, GridPadding padding, bool align_corners) {
  if (padding == GridPadding::zeros) return at;
  const auto n = static_cast<double>(size);
  if (padding == GridPadding::border) return clamp(at, 0.0, n - 1);
  return clamp(align_corners ? reflected(at, 0, n - 1) : reflected(at, -0.5, n - 0.5), 0.0, n - 1);
}

/// Cubic convolution (Keys 1981) with the coefficient -¾: weights of the pixels at -1, 0, 1 and 2 for a position t in
/// [0, 1].
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  constexpr double a = -0.75;
  const auto near = [](const Tensor& d) { return ((a + 2) * d - (a + 3)) * square(d) + 1.0; };
  const auto far = [](const Tensor& d) { return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

struct Image {
  Tensor rows;                      ///< [N·D·H·W, C]
  Tensor first;                     ///< [N, 1, ...]: the first row of each image
  std::vector<std::int64_t> sizes;  ///< W, H, D

  /// The pixels at integer positions (x, y, z), each [N, H', W'], times a weight; 0 outside. @return [N, H', W', C]
  Tensor at(const TensorList& position, const Tensor& weight) const {
    Tensor inside, index;
    for (std::size_t k = position.size(); k-- > 0;) {
      const auto last = static_cast<double>(sizes[k] - 1);
      const Tensor here = ge(position[k], 0.0) & le(position[k], last), place = clamp(position[k], 0.0, last).to(i32);
      inside = inside.defined() ? inside & here : here;
      index = index.defined() ? index * static_cast<double>(sizes[k]) + place : place;
    }
    return embedding(rows, index + first).to(weight.dtype()) * where(inside, weight, 0.0).unsqueeze(-1);
  }

  Tensor nearest(const TensorList& position) const {
    TensorList whole;
    for (const Tensor& x : position) whole.push_back(grid_sample_rounded(x));
    return at(whole, position[0] * 0.0 + 1.0);
  }
  /// The sum over the corners around a position, each times the product of its weights along all dimensions.
  Tensor linear(const TensorList& position) const {
    Tensor y;
    for (std::size_t corner = 0; corner < std::size_t{1} << position.size(); ++corner) {
      TensorList whole;
      Tensor weight;
      for (std::size_t k = 0; k < position.size(); ++k) {
        const Tensor low = floor_of(position[k]), from_low = position[k] - low;
        const bool upper = (corner >> k & 1) != 0;
        const Tensor share = upper ? from_low : 1.0 - from_low;
        whole.push_back(upper ? low + 1.0 : low);
        weight = weight.defined() ? weight * share : share;
      }
      const Tensor part = at(whole, weight);
      y = y.defined() ? y + part : part;
    }
    return y;
  }
  /// @param position the padding applies to each neighbouring pixel separately
  Tensor cubic(const TensorList& position, GridPadding padding, bool align_corners) const {
    const Tensor left = floor_of(position[0]), top = floor_of(position[1]);
    const std::array<Tensor, 4> across = cubic_weights(position[0] - left), down = cubic_weights(position[1] - top);
    Tensor y;
    for (std::size_t j = 0; j < 4; ++j) {
      const Tensor row = grid_sample_padded(top + (static_cast<double>(j) - 1), sizes[1], padding, align_corners);
      for (std::size_t i = 0; i < 4; ++i) {
        const Tensor column = grid_sample_padded(left + (static_cast<double>(i) - 1), sizes[0], padding, align_corners);
        const Tensor part = at({column, row}, across[i] * down[j]);
        y = y.defined() ? y + part : part;
      }
    }
    return y;
  }
};

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleMode mode, GridPadding padding_mode,
                   bool align_corners) {
  detail::require_defined("grid_sample", x, grid);
  const int spatial = x.dim() - 2;
  bool fits = (spatial == 2 || spatial == 3) && grid.dim() == x.dim() && grid.size(-1) == spatial &&
              grid.shape()[0] == x.shape()[0];
  for (int d = 2; fits && d < x.dim(); ++d) fits = x.shape()[d] > 0;
  if (!fits) {
    throw ShapeError(
        fmt::format("grid_sample: x is {}, the grid is {}; they must be [N, C, H, W] and [N, H', W', 2], or "
                    "[N, C, D, H, W] and [N, D', H', W', 3]",
                    str(x.shape()), str(grid.shape())));
  }
  if (mode == GridSampleMode::bicubic && spatial != 2)
    throw ShapeError(fmt::format("grid_sample: bicubic is for images [N, C, H, W], x is {}", str(x.shape())));
  if (!is_floating(x.dtype()) || !is_floating(grid.dtype())) {
    throw DtypeError(fmt::format("grid_sample: x is {}, the grid is {}; both must be floating", name(x.dtype()),
                                 name(grid.dtype())));
  }
  const Shape s = x.shape();
  Shape images = s, result = grid.shape(), ones_after_first = Dims::filled(spatial + 1, 1);
  images.erase(1);
  result.erase(spatial + 1);
  result.insert(1, s[1]);
  ones_after_first[0] = s[0];
  if (numel(images, "grid_sample") > std::int64_t{0x7fffffff})
    throw ShapeError(fmt::format("grid_sample: {} has more than 2^31 pixels, which kernels do not index", str(s)));
  if (x.numel() == 0 || grid.numel() == 0) {  // keeps an empty result, or one without sources, on the tape
    return (sum(x) + sum(grid)).to(x.dtype()).expand(result);
  }
  const DType t = promote(promote(x.dtype(), grid.dtype()), f32);
  const Tensor positions = grid.to(t);
  const std::int64_t each = numel(images, "grid_sample") / s[0];
  Dims channels_last{0}, channels_second{0, spatial + 1};
  for (int d = 0; d < spatial; ++d) channels_last.push_back(d + 2), channels_second.push_back(d + 1);
  channels_last.push_back(1);
  Image image{
      x.permute(channels_last).reshape({s[0] * each, s[1]}),
      (grid_sample_counted(s[0], f32, x.device()).to(i32) * static_cast<double>(each)).reshape(ones_after_first),
      {}};
  TensorList at;
  for (int k = 0; k < spatial; ++k) {
    image.sizes.push_back(s[s.rank() - 1 - k]);
    at.push_back(pixels(positions.select(-1, k), image.sizes.back(), align_corners));
    if (mode != GridSampleMode::bicubic)
      at.back() = grid_sample_padded(at.back(), image.sizes.back(), padding_mode, align_corners);
  }
  const Tensor y = mode == GridSampleMode::nearest    ? image.nearest(at)
                   : mode == GridSampleMode::bilinear ? image.linear(at)
                                                      : image.cubic(at, padding_mode, align_corners);
  return y.to(x.dtype()).permute(channels_second);
}

Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners) {
  detail::require_defined("affine_grid", theta);
  const int spatial = size.rank() - 2;
  const bool fits = (spatial == 2 || spatial == 3) && theta.dim() == 3 && is_floating(theta.dtype()) &&
                    theta.shape() == Shape({size[0], spatial, spatial + 1});
  if (!fits) {
    throw ShapeError(
        fmt::format("affine_grid: theta is {}, the size is {}; they must be [N, 2, 3] and [N, C, H, W], or [N, 3, 4] "
                    "and five sizes",
                    str(theta.shape()), str(size)));
  }
  Shape whole;
  for (int d = 0; d < spatial; ++d) whole.push_back(size[d + 2]);
  const DType t = theta.dtype() == f64 ? f64 : f32;
  std::vector<Tensor> coordinates;  // the last dimension first: (x, y, z, 1)
  for (int d = spatial - 1; d >= 0; --d) {
    const auto n = static_cast<double>(whole[d]);
    Shape along = Dims::filled(spatial, 1);
    along[d] = whole[d];
    Tensor at = grid_sample_counted(whole[d], t, theta.device());
    at = n <= 1 ? at * 0.0 : align_corners ? at * (2 / (n - 1)) - 1.0 : (at * 2.0 + (1 - n)) * (1 / n);
    coordinates.push_back(at.reshape(along).expand(whole));
  }
  coordinates.push_back(ones(whole, {t, theta.device()}));
  const Tensor base = stack(coordinates, -1).reshape({numel(whole, "affine_grid"), spatial + 1});
  Shape result = whole;
  result.insert(0, size[0]);
  result.push_back(spatial);
  return matmul(base.to(theta.dtype()), theta.transpose(1, 2)).reshape(result);
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  detail::require_defined("pixel_shuffle", x);
  if (x.dim() < 3 || r < 1 || r > 1 << 15 || x.size(-3) % (r * r) != 0) {
    throw ShapeError(fmt::format("pixel_shuffle: {} is not [..., C·r², H, W] for a factor r of {}", str(x.shape()), r));
  }
  const std::int64_t c = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
  Shape front;
  for (int d = 0; d < x.dim() - 3; ++d) front.push_back(x.shape()[d]);
  const std::int64_t n = numel(front, "pixel_shuffle");
  front.push_back(c);
  front.push_back(checked_product(h, r, "pixel_shuffle"));
  front.push_back(checked_product(w, r, "pixel_shuffle"));
  return x.reshape({n, c, r, r, h, w}).permute({0, 1, 4, 2, 5, 3}).reshape(front);
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  detail::require_defined("pixel_unshuffle", x);
  if (x.dim() < 3 || r < 1 || x.size(-2) % r != 0 || x.size(-1) % r != 0) {
    throw ShapeError(
        fmt::format("pixel_unshuffle: {} is not [..., C, H·r, W·r] for a factor r of {}", str(x.shape()), r));
  }
  const std::int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  Shape front;
  for (int d = 0; d < x.dim() - 3; ++d) front.push_back(x.shape()[d]);
  const std::int64_t n = numel(front, "pixel_unshuffle");
  front.push_back(checked_product(c, checked_product(r, r, "pixel_unshuffle"), "pixel_unshuffle"));
  front.push_back(h);
  front.push_back(w);
  return x.reshape({n, c, h, r, w, r}).permute({0, 1, 3, 5, 2, 4}).reshape(front);
}

Tensor channel_shuffle(const Tensor& x, std::int64_t groups) {
  detail::require_defined("channel_shuffle", x);
  if (x.dim() < 3 || groups < 1 || x.size(1) % groups != 0) {
    throw ShapeError(fmt::format("channel_shuffle: {} is not [N, C, ...] with channels for {} equal groups",
                                 str(x.shape()), groups));
  }
  Shape rest;
  for (int d = 2; d < x.dim(); ++d) rest.push_back(x.shape()[d]);
  const std::int64_t each = x.size(1) / groups;
  return x.reshape({x.size(0), groups, each, numel(rest, "channel_shuffle")}).transpose(1, 2).reshape(x.shape());
}

}  // namespace etna
