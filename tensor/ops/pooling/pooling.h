#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

/// Pooling over the last one, two or three dimensions. Inputs are floating, [C, spatial...] or [N, C, spatial...]; any
/// other number of leading dimensions works too. If the channels of a 4-d or 5-d view are adjacent in memory, as
/// x.permute() of [N, H, W, C] leaves them, the result has the same layout and nothing is copied.
///
/// Sizes are one number for all spatial dimensions, or one number each. An empty stride means the kernel's size.
/// @throws ShapeError if a size does not fit, padding exceeds half the kernel, or a result would be empty
namespace etna {

struct MaxPoolOptions {
  Dims stride = {}, padding = 0, dilation = 1;
  bool ceil_mode = false;  ///< also use windows that start inside and end beyond the padded input
};
/// The result of pooling with indices.
struct MaxPooled {
  Tensor values;
  Tensor indices;  ///< i64: positions in the flattened spatial dimensions
};

/// The gradient goes to the first of equal maxima. NaN counts as the largest.
Tensor max_pool1d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, Dims dilation = 1,
                  bool ceil_mode = false);
Tensor max_pool2d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, Dims dilation = 1,
                  bool ceil_mode = false);
Tensor max_pool3d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, Dims dilation = 1,
                  bool ceil_mode = false);
/// PyTorch's return_indices = true.
MaxPooled max_pool1d_with_indices(const Tensor& x, Dims kernel_size, const MaxPoolOptions& options = {});
MaxPooled max_pool2d_with_indices(const Tensor& x, Dims kernel_size, const MaxPoolOptions& options = {});
MaxPooled max_pool3d_with_indices(const Tensor& x, Dims kernel_size, const MaxPoolOptions& options = {});
/// Puts values back at the positions where max_pool found them, among zeros. The other arguments are those of the
/// pooling. An index outside its own window is skipped.
/// @param indices i64 or i32, of x's shape @param output_size the pooled tensor's spatial sizes; empty: the smallest
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, Dims kernel_size, Dims stride = {}, Dims padding = 0,
                    Dims output_size = {});
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Dims kernel_size, Dims stride = {}, Dims padding = 0,
                    Dims output_size = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Dims kernel_size, Dims stride = {}, Dims padding = 0,
                    Dims output_size = {});

/// @param count_include_pad true: zeros of the padding count as elements of the mean
/// @param divisor_override divides sums by this number instead
Tensor avg_pool1d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, bool ceil_mode = false,
                  bool count_include_pad = true);
Tensor avg_pool2d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, bool ceil_mode = false,
                  bool count_include_pad = true, std::optional<std::int64_t> divisor_override = {});
Tensor avg_pool3d(const Tensor& x, Dims kernel_size, Dims stride = {}, Dims padding = 0, bool ceil_mode = false,
                  bool count_include_pad = true, std::optional<std::int64_t> divisor_override = {});

/// Divides the input into `output_size` nearly equal windows. A size of -1 keeps the input's size (PyTorch's None).
Tensor adaptive_avg_pool1d(const Tensor& x, Dims output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, Dims output_size);
Tensor adaptive_avg_pool3d(const Tensor& x, Dims output_size);
Tensor adaptive_max_pool1d(const Tensor& x, Dims output_size);
Tensor adaptive_max_pool2d(const Tensor& x, Dims output_size);
Tensor adaptive_max_pool3d(const Tensor& x, Dims output_size);
MaxPooled adaptive_max_pool1d_with_indices(const Tensor& x, Dims output_size);
MaxPooled adaptive_max_pool2d_with_indices(const Tensor& x, Dims output_size);
MaxPooled adaptive_max_pool3d_with_indices(const Tensor& x, Dims output_size);

/// (Σ x^norm_type)^(1/norm_type) over each window; 0 where the sum is not positive.
Tensor lp_pool1d(const Tensor& x, double norm_type, Dims kernel_size, Dims stride = {}, bool ceil_mode = false);
Tensor lp_pool2d(const Tensor& x, double norm_type, Dims kernel_size, Dims stride = {}, bool ceil_mode = false);
Tensor lp_pool3d(const Tensor& x, double norm_type, Dims kernel_size, Dims stride = {}, bool ceil_mode = false);

}  // namespace etna
