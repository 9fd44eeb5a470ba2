#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>

// The public functions: convert PyTorch's arguments and channels-first shapes to the ops' settings and channels-last
// views.
namespace etna {

Padding::Padding(std::string_view word) {
  if (word == "same") {
    mode = Mode::same;
  } else if (word == "valid") {
    sizes = 0;
  } else {
    throw Error(fmt::format("padding is numbers, \"same\" or \"valid\", not \"{}\"", word));
  }
}

namespace {

using namespace convolution;

/// One number for each of `dims` spatial dimensions, at the end of three; a single number applies to all.
Three numbers(const char* op, const char* what, const Dims& given, int dims, std::int64_t least, std::int64_t neutral) {
  if (given.rank() != 1 && given.rank() != dims) {
    throw ShapeError(
        fmt::format("{}: {} {} has {} numbers, it takes {} or one for all", op, what, str(given), given.rank(), dims));
  }
  Three all{neutral, neutral, neutral};
  for (int d = 0; d < dims; ++d) {
    const std::int64_t n = given[given.rank() == 1 ? 0 : d];
    if (n < least) throw ShapeError(fmt::format("{}: {} {} must be at least {}", op, what, str(given), least));
    // Kernels compute positions in 31 bits.
    constexpr std::int64_t most = (1 << 30) - 1;
    if (n > most) throw ShapeError(fmt::format("{}: {} {} must be at most {}", op, what, str(given), most));
    all[static_cast<std::size_t>(3 - dims + d)] = n;
  }
  return all;
}

/// [N, channels, sizes...] as [N, three sizes, channels].
Tensor to_channels_last(const Tensor& x) {
  Dims order = {0};
  for (int d = 2; d < x.dim(); ++d) order.push_back(d);
  order.push_back(1);
  Tensor y = x.permute(order);
  while (y.dim() < 5) y = y.unsqueeze(1);
  return y;
}
Tensor to_channels_first(Tensor y, int dims) {
  for (int d = dims; d < 3; ++d) y = y.squeeze(1);
  Dims order = {0, dims + 1};
  for (int d = 1; d <= dims; ++d) order.push_back(d);
  return y.permute(order);
}

/// Checks the requirements that all convolutions share. @return x with a batch dimension
Tensor batched(const char* op, const Tensor& x, const Tensor& weight, int dims, std::int64_t groups) {
  detail::require_defined(op, x, weight);
  if (x.dim() != dims + 2 && x.dim() != dims + 1) {
    throw ShapeError(fmt::format("{}: x {} has {} dimensions; it must be [N, C, {}] or without N", op, str(x.shape()),
                                 x.dim(),
                                 dims == 1   ? "L"
                                 : dims == 2 ? "H, W"
                                             : "D, H, W"));
  }
  if (weight.dim() != dims + 2) {
    throw ShapeError(fmt::format("{}: the weight {} has {} dimensions, it must have {}: two of channels and the kernel",
                                 op, str(weight.shape()), weight.dim(), dims + 2));
  }
  for (int d = 2; d < weight.dim(); ++d) {
    if (weight.shape()[d] == 0)
      throw ShapeError(fmt::format("{}: the weight {} has an empty kernel", op, str(weight.shape())));
  }
  if (groups < 1) throw ShapeError(fmt::format("{}: groups is {}, it must be at least 1", op, groups));
  return x.dim() == dims + 1 ? x.unsqueeze(0) : x;
}

Three tail(const Shape& shape, int dims) {
  Three sizes{1, 1, 1};
  for (int d = 0; d < dims; ++d) sizes[static_cast<std::size_t>(3 - dims + d)] = shape[shape.rank() - dims + d];
  return sizes;
}

Tensor conv(int dims, const Tensor& given, const Tensor& weight, const Tensor& bias, const Dims& stride,
            const Padding& padding, const Dims& dilation, std::int64_t groups) {
  ConvolutionAttrs s{.dims = dims, .groups = groups};
  const char* op = public_name(s);
  const Tensor x = batched(op, given, weight, dims, groups);
  const std::int64_t c = x.size(1), k = weight.size(0);
  if (c % groups != 0 || k % groups != 0 || weight.size(1) != c / groups) {
    throw ShapeError(fmt::format(
        "{}: x {} has {} channels in {} groups, the weight {} makes {} of {} per group; the weight must be "
        "[K, C / groups, kernel...] with K and C multiples of groups{}",
        op, str(given.shape()), c, groups, str(weight.shape()), k, weight.size(1),
        given.dim() == dims + 1 && given.size(0) != weight.size(1) ? "; did you leave out x's batch dimension?" : ""));
  }
  s.stride = numbers(op, "stride", stride, dims, 1, 1);
  s.dilation = numbers(op, "dilation", dilation, dims, 1, 1);
  s.kernel = tail(weight.shape(), dims), s.extent = tail(x.shape(), dims);
  if (padding.mode == Padding::Mode::same) {
    if (s.stride != Three{1, 1, 1})
      throw ShapeError(fmt::format("{}: padding \"same\" needs stride 1, not {}", op, str(stride)));
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t total = checked_product(s.dilation[d], s.kernel[d] - 1, op);
      s.padding[d] = total / 2, s.padding_after[d] = total - total / 2;
    }
  } else {
    s.padding = s.padding_after = numbers(op, "padding", padding.sizes, dims, 0, 0);
  }
  Tensor y = to_channels_first(convolve(to_channels_last(x), to_channels_last(weight), bias, s), dims);
  return given.dim() == dims + 1 ? y.squeeze(0) : y;
}

Tensor conv_transpose(int dims, const Tensor& given, const Tensor& weight, const Tensor& bias, const Dims& stride,
                      const Dims& padding, const Dims& output_padding, std::int64_t groups, const Dims& dilation) {
  ConvolutionAttrs s{.dims = dims, .transposed = true, .groups = groups};
  const char* op = public_name(s);
  const Tensor x = batched(op, given, weight, dims, groups);
  if (weight.size(0) != x.size(1) || x.size(1) % groups != 0) {
    throw ShapeError(fmt::format(
        "{}: x {} has {} channels in {} groups, the weight is {}; it must be [C, K / groups, kernel...] with C a "
        "multiple of groups",
        op, str(given.shape()), x.size(1), groups, str(weight.shape())));
  }
  s.stride = numbers(op, "stride", stride, dims, 1, 1);
  s.dilation = numbers(op, "dilation", dilation, dims, 1, 1);
  s.padding = s.padding_after = numbers(op, "padding", padding, dims, 0, 0);
  const Three more = numbers(op, "output_padding", output_padding, dims, 0, 0);
  s.kernel = tail(weight.shape(), dims);
  const Three sizes = tail(x.shape(), dims);
  for (std::size_t d = 0; d < 3; ++d) {
    if (more[d] != 0 && more[d] >= std::max(s.stride[d], s.dilation[d])) {
      throw ShapeError(fmt::format("{}: output_padding {} must be below stride {} or dilation {}", op,
                                   str(output_padding), s.stride[d], s.dilation[d]));
    }
    const std::int64_t reach = checked_product(s.dilation[d], s.kernel[d] - 1, op);
    s.extent[d] =
        checked_sum(checked_product(sizes[d] - 1, s.stride[d], op), reach + more[d] + 1 - 2 * s.padding[d], op);
    if (s.extent[d] < 1) {
      throw ShapeError(fmt::format("{}: x {} with padding {} gives a result of size {}; pad less", op,
                                   str(given.shape()), str(padding), s.extent[d]));
    }
    // A convolution of the result then has x's sizes.
    s.padding_after[d] -= more[d];
  }
  Tensor y = to_channels_first(input_gradient(to_channels_last(x), to_channels_last(weight), bias, s), dims);
  return given.dim() == dims + 1 ? y.squeeze(0) : y;
}

/// The settings of unfold() and fold().
ConvolutionAttrs patches_of(const char* op, const Dims& kernel, const Dims& dilation, const Dims& padding,
                            const Dims& stride, const Three& extent) {
  ConvolutionAttrs s;
  s.kernel = numbers(op, "kernel_size", kernel, 2, 1, 1);
  s.dilation = numbers(op, "dilation", dilation, 2, 1, 1);
  s.padding = s.padding_after = numbers(op, "padding", padding, 2, 0, 0);
  s.stride = numbers(op, "stride", stride, 2, 1, 1);
  s.extent = extent;
  return s;
}

void convolution_functions_check_floating(const char* op, const Tensor& x) {
  if (is_floating(x.dtype())) return;
  throw DtypeError(fmt::format("{}: x holds {}, it must be floating; call .to(f32)", op, name(x.dtype())));
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride, const Padding& padding,
              const Dims& dilation, std::int64_t groups) {
  return conv(1, x, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride, const Padding& padding,
              const Dims& dilation, std::int64_t groups) {
  return conv(2, x, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride, const Padding& padding,
              const Dims& dilation, std::int64_t groups) {
  return conv(3, x, weight, bias, stride, padding, dilation, groups);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                        const Dims& padding, const Dims& output_padding, std::int64_t groups, const Dims& dilation) {
  return conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                        const Dims& padding, const Dims& output_padding, std::int64_t groups, const Dims& dilation) {
  return conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                        const Dims& padding, const Dims& output_padding, std::int64_t groups, const Dims& dilation) {
  return conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation);
}

Tensor unfold(const Tensor& x, const Dims& kernel_size, const Dims& dilation, const Dims& padding, const Dims& stride) {
  detail::require_defined("unfold", x);
  convolution_functions_check_floating("unfold", x);
  if (x.dim() == 3) return unfold(x.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0);
  if (x.dim() != 4) throw ShapeError(fmt::format("unfold: x {} must be [N, C, H, W] or [C, H, W]", str(x.shape())));
  const ConvolutionAttrs s = patches_of("unfold", kernel_size, dilation, padding, stride, tail(x.shape(), 2));
  const Tensor patches = im2col(to_channels_last(x), s);
  return patches.permute({0, 3, 2, 1})
      .reshape({x.size(0), checked_product(x.size(1), patches.size(2), "unfold"), patches.size(1)});
}

Tensor fold(const Tensor& x, const Dims& output_size, const Dims& kernel_size, const Dims& dilation,
            const Dims& padding, const Dims& stride) {
  detail::require_defined("fold", x);
  convolution_functions_check_floating("fold", x);
  if (x.dim() == 2) return fold(x.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0);
  if (x.dim() != 3) {
    throw ShapeError(fmt::format("fold: x {} must be [N, C · kernel elements, patches], or without N", str(x.shape())));
  }
  const Three extent = numbers("fold", "output_size", output_size, 2, 1, 1);
  const ConvolutionAttrs s = patches_of("fold", kernel_size, dilation, padding, stride, extent);
  const std::int64_t taps = checked_product(s.kernel[1], s.kernel[2], "fold");
  const Three places = result_sizes("fold", s, extent, s.kernel);
  const std::int64_t count = checked_product(places[1], places[2], "fold");
  if (x.size(1) % taps != 0 || x.size(2) != count) {
    throw ShapeError(fmt::format(
        "fold: x {} must be [N, a multiple of {} (the kernel's elements), {} (the places of the kernel in {})]",
        str(x.shape()), taps, count, str(output_size)));
  }
  const Tensor patches = x.reshape({x.size(0), x.size(1) / taps, taps, count}).permute({0, 3, 2, 1});
  return to_channels_first(col2im(patches, s), 2);
}

}  // namespace etna
