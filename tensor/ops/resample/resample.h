#pragma once

#include <vector>

#include <etna/tensor/tensor.h>

/// Padding, interpolation and sampling of images; functions that move pixels between channels and space.
namespace etna {

/// constant: a value · reflect: mirrors at the edge without repeating it · replicate: repeats the edge · circular:
/// continues from the other end
enum class PadMode { constant, reflect, replicate, circular };

/// @param pads before and after the last dimension, then before and after the second-to-last, and so on. Negative
/// numbers crop. At most three dimensions unless constant; reflect pads by less than the dimension's size, circular by
/// at most its size.
/// @throws DtypeError for integers in modes reflect and replicate
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& pads, PadMode mode = PadMode::constant, double value = 0);

/// linear is for [N, C, L], bilinear and bicubic for [N, C, H, W], trilinear for [N, C, D, H, W]; the others for all.
/// nearest_exact takes the element under the pixel's center; nearest, as in older PyTorch, the one under its corner.
/// area averages.
enum class Interpolation { nearest, nearest_exact, linear, bilinear, trilinear, bicubic, area };

struct InterpolateOptions {
  std::vector<double> scale_factor = {};  ///< one number, or one per spatial dimension; or else:
  Dims size = {};                         ///< sizes, given the same way
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;           ///< true: maps corner centers to corner centers; linear and cubic modes
  bool recompute_scale_factor = false;  ///< true: recomputes the scale from the rounded sizes
};
/// Resizes the spatial dimensions: `interpolate(x, {56, 56}, Interpolation::bilinear)`,
/// `interpolate(x, InterpolateOptions{.scale_factor = {2.0}})`.
/// @param x [N, C, spatial...], floating @return [N, C, size...]
Tensor interpolate(const Tensor& x, Dims size, Interpolation mode = Interpolation::nearest, bool align_corners = false);
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

enum class GridSampleMode { bilinear, nearest, bicubic };
enum class GridPadding { zeros, border, reflection };
/// Samples x at the positions of a grid. With align_corners, -1 and 1 are the centers of the corner pixels, otherwise
/// the edges of the image. Bilinear is trilinear for volumes; bicubic is for images only. The gradient of x adds up in
/// order, so its bits do not vary.
/// @param x [N, C, H, W] or [N, C, D, H, W] @param grid [N, H', W', 2]: (x, y), or [N, D', H', W', 3]: (x, y, z)
/// @return [N, C, H', W'] or [N, C, D', H', W']
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleMode mode = GridSampleMode::bilinear,
                   GridPadding padding_mode = GridPadding::zeros, bool align_corners = false);
/// The grid of an affine map, for grid_sample().
/// @param theta [N, 2, 3] or [N, 3, 4] @param size [N, C, H, W] or [N, C, D, H, W]
/// @return [N, H, W, 2] or [N, D, H, W, 3]
Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners = false);

/// [..., C·r², H, W] → [..., C, H·r, W·r] (Shi et al. 2016), and back.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);
/// Channel c of group g becomes channel c·groups + g. @param x [N, C, ...]
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

}  // namespace etna
