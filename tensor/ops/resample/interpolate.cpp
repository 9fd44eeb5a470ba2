#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/resample/internal/resample.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna {
namespace {

using resample::Axis;
using InterpolateKind = resample::Kind;
using resample::ResampleAttrs;

constexpr std::int64_t kInterpolateLargest = 1 << 30;

InterpolateKind kind_of(Interpolation mode) {
  switch (mode) {
    case Interpolation::nearest:
      return InterpolateKind::nearest;
    case Interpolation::nearest_exact:
      return InterpolateKind::nearest_exact;
    case Interpolation::bicubic:
      return InterpolateKind::cubic;
    default:
      return InterpolateKind::linear;
  }
}

/// The number of spatial dimensions that a mode requires; 0: any.
int dimensions_of(Interpolation mode) {
  return mode == Interpolation::linear                                       ? 1
         : mode == Interpolation::bilinear || mode == Interpolation::bicubic ? 2
         : mode == Interpolation::trilinear                                  ? 3
                                                                             : 0;
}

void interpolate_check(const Tensor& x, const InterpolateOptions& o, int spatial) {
  if (spatial < 1 || spatial > 3 || (dimensions_of(o.mode) != 0 && dimensions_of(o.mode) != spatial)) {
    throw ShapeError(
        fmt::format("interpolate: {} does not match the mode; linear takes [N, C, L], bilinear and bicubic [N, C, H, "
                    "W], trilinear "
                    "[N, C, D, H, W], the others all of these",
                    str(x.shape())));
  }
  if (o.size.empty() == o.scale_factor.empty())
    throw ShapeError("interpolate: pass either a size or a scale_factor, and not both");
  const std::size_t given = o.size.empty() ? o.scale_factor.size() : o.size.size();
  if (given != 1 && given != static_cast<std::size_t>(spatial)) {
    throw ShapeError(fmt::format("interpolate: {} sizes or factors for {} spatial dimensions of {}", given, spatial,
                                 str(x.shape())));
  }
  if (o.align_corners && dimensions_of(o.mode) == 0)
    throw ShapeError("interpolate: align_corners is for linear, bilinear, trilinear and bicubic");
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  detail::require_defined("interpolate", x);
  const int spatial = x.dim() - 2;
  interpolate_check(x, o, spatial);
  ResampleAttrs map;
  map.kind = kind_of(o.mode);
  map.align_corners = o.align_corners;
  Dims sizes;
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t from = x.shape()[i + 2];
    const auto given = static_cast<std::size_t>(i);
    double factor = 0;
    std::int64_t to;
    if (o.size.empty()) {
      factor = o.scale_factor[o.scale_factor.size() == 1 ? 0 : given];
      const double exact = std::floor(static_cast<double>(from) * factor);
      to = factor > 0 && exact <= kInterpolateLargest ? static_cast<std::int64_t>(exact) : -1;
    } else {
      to = o.size[o.size.rank() == 1 ? 0 : i];
    }
    if (from < 1 || from > kInterpolateLargest || to < 1 || to > kInterpolateLargest) {
      throw ShapeError(
          fmt::format("interpolate: dimension {} of {} cannot become {} elements; sizes are from 1 to 2^30", i + 2,
                      str(x.shape()), to));
    }
    sizes.push_back(to);
    Axis& axis = map.axes[3 - spatial + i];
    axis.from = static_cast<std::int32_t>(from);
    axis.to = static_cast<std::int32_t>(to);
    if (o.align_corners)
      axis.scale = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    else
      axis.scale =
          factor > 0 && !o.recompute_scale_factor ? 1 / factor : static_cast<double>(from) / static_cast<double>(to);
  }
  if (o.mode == Interpolation::area) {
    return spatial == 1   ? adaptive_avg_pool1d(x, sizes)
           : spatial == 2 ? adaptive_avg_pool2d(x, sizes)
                          : adaptive_avg_pool3d(x, sizes);
  }
  const resample::Planes planes("interpolate", x, spatial);
  return planes.unfold(resample::apply_map(planes.folded(), map));
}

Tensor interpolate(const Tensor& x, Dims size, Interpolation mode, bool align_corners) {
  InterpolateOptions options;
  options.size = size;
  options.mode = mode;
  options.align_corners = align_corners;
  return interpolate(x, options);
}

}  // namespace etna
