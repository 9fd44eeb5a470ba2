#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/resampling.h>

// Composed: the pixels that a position lies between are rows of a table of all pixels, which embedding() looks up. Its
// gradient adds up equal rows in order.
namespace etna {
namespace {

/// 0, 1, ... n - 1, made on the device: nothing is uploaded.
Tensor counted(std::int64_t n, DType dtype, Device device) { return cumsum(ones({n}, {dtype, device}), 0) - 1.0; }

/// The largest whole number that is not above x. Numbers beyond ±10^9 and NaN become -10^9: they lie outside any image.
Tensor floor_of(const Tensor& x) {
  const Tensor near = where(isfinite(x), clamp(x.detach(), -1e9, 1e9), -1e9);
  const Tensor truncated = near.to(i32).to(x.dtype());
  return truncated - gt(truncated, near).to(x.dtype());
}

/// To the nearest whole number, halves to the even one.
Tensor rounded(const Tensor& x) {
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

/// Positions along one dimension in pixels, inside the image unless it is surrounded by zeros.
Tensor pixels(const Tensor& at, std::int64_t size, GridPadding padding, bool align_corners) {
  const auto n = static_cast<double>(size);
  Tensor x = align_corners ? (at + 1.0) * ((n - 1) / 2) : ((at + 1.0) * n - 1.0) * 0.5;
  if (padding == GridPadding::reflection) x = align_corners ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5);
  return padding == GridPadding::zeros ? x : clamp(x, 0.0, n - 1);
}

struct Image {
  Tensor rows;   ///< [N·H·W, C]
  Tensor first;  ///< [N, 1, 1]: the first row of each image
  std::int64_t height, width;

  /// The pixels at whole positions [N, H', W'], times a weight; 0 outside. @return [N, H', W', C]
  Tensor at(const Tensor& x, const Tensor& y, const Tensor& weight) const {
    const auto w = static_cast<double>(width - 1), h = static_cast<double>(height - 1);
    const Tensor inside = ge(x, 0.0) & le(x, w) & ge(y, 0.0) & le(y, h);
    const Tensor index = clamp(y, 0.0, h).to(i32) * static_cast<double>(width) + clamp(x, 0.0, w).to(i32) + first;
    return embedding(rows, index).to(weight.dtype()) * where(inside, weight, 0.0).unsqueeze(-1);
  }
};

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleMode mode, GridPadding padding_mode,
                   bool align_corners) {
  detail::require_defined("grid_sample", x, grid);
  const bool fits = x.dim() == 4 && grid.dim() == 4 && grid.shape()[3] == 2 && grid.shape()[0] == x.shape()[0] &&
                    x.shape()[2] > 0 && x.shape()[3] > 0;
  if (!fits) {
    throw ShapeError(fmt::format("grid_sample: x is {}, the grid is {}; they must be [N, C, H, W] and [N, H', W', 2]",
                                 str(x.shape()), str(grid.shape())));
  }
  if (!is_floating(x.dtype()) || !is_floating(grid.dtype())) {
    throw DtypeError(fmt::format("grid_sample: x is {}, the grid is {}; both must be floating", name(x.dtype()),
                                 name(grid.dtype())));
  }
  const Shape s = x.shape();
  if (numel({s[0], s[2], s[3]}, "grid_sample") > std::int64_t{0x7fffffff})
    throw ShapeError(fmt::format("grid_sample: {} has more than 2^31 pixels, which kernels do not index", str(s)));
  if (x.numel() == 0 || grid.numel() == 0) {  // a result without elements, or without sources, on the tape
    return (sum(x) + sum(grid)).to(x.dtype()).expand({s[0], s[1], grid.shape()[1], grid.shape()[2]});
  }
  const DType t = promote(promote(x.dtype(), grid.dtype()), f32);
  const Tensor positions = grid.to(t);
  const Tensor px = pixels(positions.select(-1, 0), s[3], padding_mode, align_corners),
               py = pixels(positions.select(-1, 1), s[2], padding_mode, align_corners);
  const Image image{x.permute({0, 2, 3, 1}).reshape({s[0] * s[2] * s[3], s[1]}),
                    (counted(s[0], f32, x.device()).to(i32) * static_cast<double>(s[2] * s[3])).reshape({s[0], 1, 1}),
                    s[2], s[3]};
  Tensor y;
  if (mode == GridSampleMode::nearest) {
    y = image.at(rounded(px), rounded(py), px * 0.0 + 1.0);
  } else {
    const Tensor left = floor_of(px), top = floor_of(py), right = left + 1.0, bottom = top + 1.0;
    const Tensor to_left = px - left, to_top = py - top, to_right = 1.0 - to_left, to_bottom = 1.0 - to_top;
    y = image.at(left, top, to_right * to_bottom) + image.at(right, top, to_left * to_bottom) +
        image.at(left, bottom, to_right * to_top) + image.at(right, bottom, to_left * to_top);
  }
  return y.to(x.dtype()).permute({0, 3, 1, 2});
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
    Tensor at = counted(whole[d], t, theta.device());
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
