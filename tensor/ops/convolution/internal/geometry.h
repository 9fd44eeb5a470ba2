#pragma once

#include <array>
#include <cstdint>

#include <etna/tensor/op.h>

/// The shapes that the ops of this folder use: channels-last tensors of three spatial dimensions.
///     x [N, D, H, W, C]    weight [K, kernel..., C / groups]    y [N, out..., K]    patches [N, pixels of y, taps, C]
/// One- and two-dimensional convolutions have leading dimensions of size 1.
namespace etna::convolution {

using Three = std::array<std::int64_t, 3>;

/// The attributes of all convolution ops.
struct ConvolutionAttrs {
  int dims = 2;             ///< spatial dimensions of the public function
  bool transposed = false;  ///< conv_transpose
  std::int64_t groups = 1;
  Three stride{1, 1, 1}, padding{}, padding_after{}, dilation{1, 1, 1};
  /// Sizes that the inputs do not determine: of x for convolution_input and col2im, of the kernel for
  /// convolution_weight and im2col.
  Three extent{1, 1, 1}, kernel{1, 1, 1};
};

/// The sizes of a convolution from x to y. Every op uses it, whether it computes x's gradient, weight's or y.
struct Geometry {
  std::int64_t n = 0, c = 0, k = 0, groups = 1;
  Three in{}, out{}, kernel{}, stride{}, padding{}, dilation{};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  std::int64_t c_per_group() const { return c / groups; }
  std::int64_t k_per_group() const { return k / groups; }
  /// True if the patches of x are x itself.
  bool pointwise() const;
  bool unit_stride() const { return stride == Three{1, 1, 1}; }
  /// True if only every stride-th pixel of images is read: of a 1x1 convolution with a stride.
  bool samples() const { return taps() == 1 && !unit_stride() && padding == Three{} && in[0] == 1; }
  /// The geometry of x's gradient as a convolution with stride 1 of y's gradient with the flipped kernel.
  Geometry flipped() const;
};

/// @param x_shape, y_shape [N, spatial..., channels]
Geometry geometry(const ConvolutionAttrs& s, const Shape& x_shape, const Shape& y_shape, const Three& kernel);

Three spatial(const Shape& shape);
/// [n, spatial..., channels]
Shape channels_last(std::int64_t n, const Three& spatial, std::int64_t channels);
/// Sizes of y from those of x. @throws ShapeError naming `op`
Three result_sizes(const char* op, const ConvolutionAttrs& s, const Three& x, const Three& kernel);
/// "conv2d", "conv_transpose1d"
const char* public_name(const ConvolutionAttrs& s);

/// The public functions' ops. @param bias undefined or [channels of the result]
Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s);
Tensor input_gradient(const Tensor& g, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s);
Tensor weight_gradient(const Tensor& x, const Tensor& g, const ConvolutionAttrs& s);
Tensor im2col(const Tensor& x, const ConvolutionAttrs& s);
Tensor col2im(const Tensor& patches, const ConvolutionAttrs& s);

void gather_patches_cpu(const Tensor& x, const Geometry& g, Tensor& patches);
void add_patches_cpu(const Tensor& patches, const Geometry& g, Tensor& x);

/// Patches on a GPU: one row per pixel of y with a group's taps and channels. `row` is the number of elements from row
/// to row, `group` from group to group.
struct Rows {
  Tensor patches;
  std::int64_t row = 0, group = 0;
};
/// True if gather_patches_gpu() gathers single elements, as it does for few channels. It then reads x with any strides,
/// without a copy. @param row elements from row to row
bool gathers_elements(const Geometry& g, std::int64_t row, DType t);
/// @param x [images, in..., C] @param reversed true: the last tap comes first
void gather_patches_gpu(const OpCall& call, const Tensor& x, const Geometry& g, const Rows& rows, bool reversed);
/// @param x [images, in..., C], contiguous; receives the sums plus bias @return false if a driver cannot loop over that
/// many taps
bool add_patches_gpu(const OpCall& call, const Rows& rows, const Geometry& g, const Tensor& bias, const Tensor& x);

/// Kernels. Those for a GPU return false for dtypes that they do not support.
void convolve_cpu(const OpCall& call, const Geometry& g, Tensor& y);
void input_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& x);
void weight_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& weight);
bool convolve_gpu(const OpCall& call, const Geometry& g, Tensor& y);
bool input_gradient_gpu(const OpCall& call, const Geometry& g, Tensor& x);
bool weight_gradient_gpu(const OpCall& call, const Geometry& g, Tensor& weight);

/// The same by patches and matmul: the reference for the kernels, and the implementation of f64 on the CPU.
Tensor convolve_composed(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s);
Tensor input_gradient_composed(const Tensor& g, const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& s);
Tensor weight_gradient_composed(const Tensor& x, const Tensor& g, const ConvolutionAttrs& s);

}  // namespace etna::convolution
