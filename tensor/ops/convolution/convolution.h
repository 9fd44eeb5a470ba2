#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <etna/tensor/tensor.h>

/// Convolutions as PyTorch defines them (cross-correlations), and their patches (im2col, col2im). A single number
/// applies to all spatial dimensions. Results are views whose channels are last in memory; x and weight in that layout
/// are not copied.
namespace etna {

/// Zeros before and after each spatial dimension: numbers, "valid" (none), or "same" (as many as keep the size, with
/// stride 1; an odd one goes after).
class Padding {
 public:
  enum class Mode { numbers, same };
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Padding(T each) : sizes(each) {}
  Padding(std::initializer_list<std::int64_t> each) : sizes(each) {}
  Padding(const Dims& each) : sizes(each) {}
  /// @throws Error for other strings
  Padding(const char* word) : Padding(std::string_view(word)) {}
  Padding(std::string_view word);

  Mode mode = Mode::numbers;
  Dims sizes = {};
};

/// Cross-correlation of signals with K kernels.
/// @param x [N, C, L] or [C, L] @param weight [K, C / groups, kernel] @param bias [K] or undefined
/// @return [N, K, L'] or [K, L'], L' = (L + 2 padding - dilation (kernel - 1) - 1) / stride + 1
/// @throws ShapeError, DtypeError; f16 and bf16 are summed in f32, and weight and bias then get f32 gradients
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
              const Padding& padding = 0, const Dims& dilation = 1, std::int64_t groups = 1);
/// Cross-correlation of images with K kernels; otherwise as conv1d().
/// @param x [N, C, H, W] or [C, H, W] @param weight [K, C / groups, kernel height, kernel width]
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
              const Padding& padding = 0, const Dims& dilation = 1, std::int64_t groups = 1);
/// Cross-correlation of volumes with K kernels; otherwise as conv1d().
/// @param x [N, C, D, H, W] or [C, D, H, W] @param weight [K, C / groups, depth, height, width]
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
              const Padding& padding = 0, const Dims& dilation = 1, std::int64_t groups = 1);

/// The gradient of a convolution by its input, used as a layer ("deconvolution").
/// @param x [N, C, L] or [C, L] @param weight [C, K / groups, kernel] @param bias [K] or undefined
/// @param output_padding added to the result's size at its end; smaller than stride or dilation
/// @return [N, K, L'], L' = (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
                        const Dims& padding = 0, const Dims& output_padding = 0, std::int64_t groups = 1,
                        const Dims& dilation = 1);
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
                        const Dims& padding = 0, const Dims& output_padding = 0, std::int64_t groups = 1,
                        const Dims& dilation = 1);
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Dims& stride = 1,
                        const Dims& padding = 0, const Dims& output_padding = 0, std::int64_t groups = 1,
                        const Dims& dilation = 1);

/// The patches that a kernel visits (im2col), one per column.
/// @param x [N, C, H, W] or [C, H, W] @return [N, C · kernel height · kernel width, patches]
Tensor unfold(const Tensor& x, const Dims& kernel_size, const Dims& dilation = 1, const Dims& padding = 0,
              const Dims& stride = 1);
/// Adds up patches at their positions (col2im); the gradient of unfold().
/// @param x [N, C · kernel height · kernel width, patches], or without N @param output_size [H, W]
/// @return [N, C, H, W]
Tensor fold(const Tensor& x, const Dims& output_size, const Dims& kernel_size, const Dims& dilation = 1,
            const Dims& padding = 0, const Dims& stride = 1);

}  // namespace etna
