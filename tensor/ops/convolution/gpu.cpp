#include <algorithm>
#include <optional>
#include <utility>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/internal/cubin.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>
#include <etna/tensor/ops/convolution/internal/phases.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>

// Convolutions on a GPU, as gemms of patches (im2col). Patches go to scratch for a few images at a time, so that it
// stays bounded; a 1x1 convolution reads x itself. With few channels per group the direct kernels are faster.
namespace etna::convolution {
namespace {

constexpr std::int64_t kFewChannels = 16;  ///< per group

/// The gemm kernels load 16 bytes at a time, from rows that must start at multiples of 16 bytes.
std::int64_t padded(std::int64_t elements) { return ceil_div(elements, 8) * 8; }

Tensor view(const Tensor& x, const Shape& shape, const Strides& strides) {
  return detail::make_view(x.storage(), x.device(), x.dtype(), shape, strides, x.offset());
}

/// The number of images to process at a time, given the scratch for one.
std::int64_t images_at_a_time(std::int64_t images, std::int64_t elements, DType dtype) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(item_size(dtype));
  const std::int64_t most =
      std::max<std::int64_t>(1, std::min(overrides().convolution_scratch / std::max<std::int64_t>(1, bytes),
                                         0x7fffffff / std::max<std::int64_t>(1, elements)));
  return ceil_div(images, ceil_div(images, most));
}

/// Scratch for the patches of `images` images.
Rows patches_for(const Geometry& g, std::int64_t images, DType dtype, Device device) {
  const std::int64_t row = padded(g.taps() * g.c_per_group()), rows = images * g.out_pixels();
  return {empty({g.groups, rows, row}, {dtype, device}), row, rows * row};
}
/// [groups, pixels, taps · channels of a group], without the padding.
Tensor matrix(const Rows& rows, const Geometry& g, std::int64_t images) {
  return view(rows.patches, {g.groups, images * g.out_pixels(), g.taps() * g.c_per_group()}, {rows.group, rows.row, 1});
}

/// The weight [K, kernel..., channels] with padded rows: [groups, K of a group, taps · channels].
Tensor weight_rows(const Tensor& weight, const Geometry& g) {
  const std::int64_t depth = g.taps() * g.c_per_group(), row = padded(depth), k = g.k_per_group();
  const Three& s = g.kernel;
  if (row == depth) return weight.contiguous().reshape({g.groups, k, depth});
  Tensor copy = empty({g.k, row}, {weight.dtype(), weight.device()});
  const std::int64_t c = g.c_per_group();
  view(copy, weight.shape(), {row, s[1] * s[2] * c, s[2] * c, c, 1}).copy_(weight);
  return view(copy, {g.groups, k, depth}, {k * row, row, 1});
}
/// The weight for the gradient by x: [groups, taps · K of a group, channels].
Tensor weight_columns(const Tensor& weight, const Geometry& g) {
  const std::int64_t c = g.c_per_group(), k = g.k_per_group(), row = padded(c);
  Tensor copy = empty({g.groups * g.taps() * k, row}, {weight.dtype(), weight.device()});
  const Tensor from = weight.contiguous().reshape({g.groups, k, g.taps(), c}).permute({0, 2, 1, 3});
  view(copy, {g.groups, g.taps(), k, c}, {g.taps() * k * row, k * row, row, 1}).copy_(from);
  return view(copy, {g.groups, g.taps() * k, c}, {g.taps() * k * row, row, 1});
}

bool multiply(const OpCall& call, const Tensor& a, const Tensor& b, const gemm::Epilogue& epilogue, Tensor y) {
  if (a.dim() == 3 && a.size(0) == 1) return gemm::on_gpu(call, a.select(0, 0), b.select(0, 0), epilogue, y);
  return gemm::on_gpu(call, a, b, epilogue, y);
}

/// y [images, pixels..., groups · n] = patches · weight + bias, group by group.
bool multiply_groups(const OpCall& call, const Tensor& patches, const Tensor& weight, const Tensor& bias,
                     const Tensor& y) {
  const std::int64_t groups = patches.size(0), rows = patches.size(1), n = weight.size(2);
  if (groups == 1) return multiply(call, patches, weight, {.bias = bias}, y.reshape({rows, n}));
  Tensor t = empty({groups, rows, n}, {bias.defined() && item_size(y.dtype()) == 2 ? f32 : y.dtype(), y.device()});
  if (!multiply(call, patches, weight, {}, t)) return false;
  if (bias.defined()) t = t + bias.reshape({groups, 1, n});
  Tensor result = y.reshape({rows, groups, n});
  result.copy_(t.permute({1, 0, 2}));
  return true;
}

/// y = patches of x · weight + bias. @param weight [groups, taps · channels, n]
bool multiply_patches(const OpCall& call, const Tensor& x, const Geometry& g, const Tensor& weight, const Tensor& bias,
                      Tensor& y, bool reversed) {
  if (g.pointwise() && g.groups == 1)
    return multiply(call, x.reshape({1, x.numel() / g.c, g.c}), weight, {.bias = bias}, y.reshape({-1, g.k}));
  const std::int64_t step =
      images_at_a_time(g.n, g.groups * g.out_pixels() * padded(g.taps() * g.c_per_group()), x.dtype());
  Rows rows = patches_for(g, step, x.dtype(), x.device());
  for (std::int64_t first = 0; first < g.n; first += step) {
    const std::int64_t images = std::min(step, g.n - first);
    gather_patches_gpu(call, x.slice(0, first, first + images), g, rows, reversed);
    if (!multiply_groups(call, matrix(rows, g, images), weight, bias, y.slice(0, first, first + images))) return false;
  }
  return true;
}

bool few_channels(const Geometry& g) {
  return g.groups > 1 && std::min(g.c_per_group(), g.k_per_group()) < kFewChannels;
}
bool counts_to(std::int64_t iterations, const Tensor& x) {
  const std::uint32_t most = gpu::capabilities(x.device()).most_iterations;
  return most == 0 || iterations < most;
}

/// The pixels of x that a 1x1 convolution with a stride reads.
Tensor sampled(const Tensor& x, const Geometry& g) {
  Tensor t = x;
  for (std::size_t d = 0; d < 3; ++d)
    t = t.slice(static_cast<std::int64_t>(d) + 1, 0, (g.out[d] - 1) * g.stride[d] + 1, g.stride[d]);
  return t;
}
/// The geometry of the convolution of sampled(x), with stride 1.
Geometry sampled(Geometry g) {
  g.in = g.out, g.stride = {1, 1, 1};
  return g;
}

/// x as the kernels need it: contiguous, unless im2col gathers single elements. A copy has only the pixels that are
/// read.
std::pair<Geometry, Tensor> source_of_patches(const Tensor& x, const Geometry& g) {
  if (g.samples() && !x.is_contiguous()) return {sampled(g), sampled(x, g).contiguous()};
  const bool gathers = !g.pointwise() && gathers_elements(g, padded(g.taps() * g.c), x.dtype());
  return {g, gathers ? x : x.contiguous()};
}

/// The direct kernel. @param from, to geometry of the input and of the result
bool direct(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& given_bias, const Geometry& g,
            Tensor& y, bool backward) {
  const Tensor bias = given_bias.defined() ? given_bias.contiguous() : given_bias;
  const std::int64_t c = g.c_per_group(), k = g.k_per_group(), channels = backward ? g.c : g.k;
  // [taps, channels of a group of x, channels of the result], so that neighbouring threads read neighbouring elements.
  const Tensor by_group = weight.reshape({g.groups, k, g.taps(), c});
  const Tensor by_tap = (backward ? by_group.permute({2, 1, 0, 3}) : by_group.permute({2, 3, 0, 1})).contiguous();
  const Three &from = backward ? g.out : g.in, &to = backward ? g.in : g.out;
  gpu::Kernel(shaders::convolution, call)
      .spec(x.dtype(), y.dtype(), weight.dtype(), bias.defined() ? bias.dtype() : f32, bias.defined(), backward)
      .read(x)
      .read(by_tap)
      .read(bias)
      .write(y)
      .u32(y.numel(), 0, 0, channels, backward ? c : k, backward ? k : c)
      .u32(from[0], from[1], from[2], g.kernel[0], g.kernel[1], g.kernel[2], to[0], to[1], to[2])
      .u32(g.stride[0], g.stride[1], g.stride[2], g.padding[0], g.padding[1], g.padding[2])
      .u32(g.dilation[0], g.dilation[1], g.dilation[2])
      .dispatch(gpu::grid(y.numel(), 128));
  return true;
}

bool direct_weight(const OpCall& call, const Tensor& x, const Tensor& gradient, const Geometry& g, Tensor& weight) {
  const std::int64_t c = g.c_per_group(), size = weight.numel(), pixels = g.n * g.out_pixels();
  // Enough threads to fill a GPU, and chunks short enough for every driver's loop limits.
  constexpr std::int64_t threads = 1 << 17, least = 64, most = 1 << 14;
  const std::int64_t chunk = std::clamp(ceil_div(pixels, ceil_div(threads, size)), least, most);
  const std::int64_t chunks = ceil_div(pixels, chunk);
  const Tensor partial = empty({chunks, g.taps(), c, g.k}, {f32, x.device()});
  gpu::Kernel(shaders::convolution_weight, call)
      .spec(x.dtype(), gradient.dtype(), f32, f32, 0, 0)
      .read(x)
      .read(gradient)
      .read(Tensor())
      .write(partial)
      .u32(partial.numel(), chunk, pixels, g.k, g.k_per_group(), c)
      .u32(g.in[0], g.in[1], g.in[2], g.kernel[0], g.kernel[1], g.kernel[2], g.out[0], g.out[1], g.out[2])
      .u32(g.stride[0], g.stride[1], g.stride[2], g.padding[0], g.padding[1], g.padding[2])
      .u32(g.dilation[0], g.dilation[1], g.dilation[2])
      .dispatch(gpu::grid(partial.numel(), 128));
  const Tensor sums = chunks == 1 ? partial.select(0, 0) : sum(partial, 0);
  Tensor result = weight.reshape({g.k, g.taps(), c});
  result.copy_(sums.permute({2, 0, 1}));
  return true;
}

bool weight_of(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& y, Tensor& weight) {
  if (few_channels(g)) return direct_weight(call, x, y, g, weight);
  if (!g.pointwise() && weight_gradient_by_cubin(call, g, x, y, weight)) return true;
  const std::int64_t depth = g.taps() * g.c_per_group(), pixels = g.out_pixels();
  Tensor result = weight.reshape({g.groups, g.k_per_group(), depth});
  if (g.groups == 1) result = result.select(0, 0);
  auto by_groups = [&](std::int64_t first, std::int64_t images) {
    return y.slice(0, first, first + images).reshape({images * pixels, g.groups, g.k_per_group()}).permute({1, 2, 0});
  };
  if (g.pointwise() && g.groups == 1)
    return multiply(call, by_groups(0, g.n), x.reshape({1, g.n * pixels, g.c}), {}, result);
  const std::int64_t step = images_at_a_time(g.n, g.groups * pixels * padded(depth), x.dtype());
  Rows rows = patches_for(g, step, x.dtype(), x.device());
  const bool across = weight_is_made_across(g, x);
  const Tensor sum = across ? empty({depth, g.k}, {result.dtype(), result.device()}) : result;
  for (std::int64_t first = 0; first < g.n; first += step) {
    const std::int64_t images = std::min(step, g.n - first);
    gather_patches_gpu(call, x.slice(0, first, first + images), g, rows, false);
    gemm::Epilogue epilogue;
    if (first > 0) epilogue.residual = sum;
    const Tensor of_y = by_groups(first, images), of_x = matrix(rows, g, images);
    const bool done = across ? multiply(call, of_x.transpose(1, 2), of_y.transpose(1, 2), epilogue, sum)
                             : multiply(call, of_y, of_x, epilogue, sum);
    if (!done) return false;
  }
  if (across) result.copy_(sum.t());
  return true;
}

bool unit_stride_input(const OpCall& call, const Tensor& y, const Geometry& g, const Tensor& weight, const Tensor& bias,
                       Tensor& x) {
  if (!g.pointwise() && input_gradient_by_cubin(call, g, y, weight, bias, x)) return true;
  return multiply_patches(call, y, g.flipped(), weight_columns(weight, g), bias, x, true);
}

/// Pixels that no result of a 1x1 convolution depends on have a gradient of 0.
bool input_by_samples(const OpCall& call, const Tensor& y, const Geometry& g, const Tensor& weight, Tensor& x) {
  Tensor read = empty(channels_last(g.n, g.out, g.c), {x.dtype(), x.device()});
  if (!unit_stride_input(call, y, sampled(g), weight, {}, read)) return false;
  x.zero_();
  sampled(x, g).copy_(read);
  return true;
}

bool input_by_phases(const OpCall& call, const Tensor& y, const Phases& p, const Tensor& weight, const Tensor& bias,
                     const Tensor& x) {
  const Geometry& g = p.geometry;
  Tensor phases = empty(channels_last(g.n, g.in, g.c), {x.dtype(), x.device()});
  if (!unit_stride_input(call, y, g, phases_of_weight(weight, p), phases_of_bias(bias, p), phases)) return false;
  copy_from_phases(phases, p, x);
  return true;
}

/// Computes x's patches in f32 and adds them up: with a stride, most of y's patches would be zeros.
bool input_by_patches(const OpCall& call, const Tensor& y, const Geometry& g, const Tensor& given, const Tensor& bias,
                      const Tensor& x) {
  const Tensor weight = weight_rows(given, g);
  const std::int64_t rows_of_image = g.out_pixels(), row = padded(g.taps() * g.c_per_group());
  const std::int64_t step = images_at_a_time(g.n, g.groups * rows_of_image * row, f32);
  Rows rows = patches_for(g, step, f32, x.device());
  for (std::int64_t first = 0; first < g.n; first += step) {
    const std::int64_t images = std::min(step, g.n - first), end = first + images;
    const Tensor from = y.slice(0, first, end).reshape({images * rows_of_image, g.groups, g.k_per_group()});
    Tensor to = matrix(rows, g, images);
    if (!multiply(call, from.permute({1, 0, 2}), weight, {}, g.groups == 1 ? to.select(0, 0) : to)) return false;
    if (!add_patches_gpu(call, rows, g, bias, x.slice(0, first, end))) return false;
  }
  return true;
}

}  // namespace

bool convolve_gpu(const OpCall& call, const Geometry& given, Tensor& y) {
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  const auto [g, x] = source_of_patches(call.in[0], given);
  if (few_channels(g) && counts_to(g.taps() * g.c_per_group(), x))
    return direct(call, x, call.in[1], call.in[2], g, y, false);
  const Tensor weight = call.in[1].contiguous();
  if (!g.pointwise() && convolve_by_cubin(call, g, x, weight, call.in[2], y)) return true;
  return multiply_patches(call, x, g, weight_rows(weight, g).t(), call.in[2], y, false);
}

bool input_gradient_gpu(const OpCall& call, const Geometry& g, Tensor& x) {
  if (x.dtype() == f64) return false;
  if (x.numel() == 0) return true;
  const Tensor y = call.in[0].contiguous(), bias = call.in[2];
  if (few_channels(g) && counts_to(g.taps() * g.k_per_group(), x)) return direct(call, y, call.in[1], bias, g, x, true);
  const Tensor weight = call.in[1].contiguous();
  if (g.unit_stride()) return unit_stride_input(call, y, g, weight, bias, x);
  if (y.numel() > 0) {
    if (g.samples() && g.groups == 1 && !bias.defined()) return input_by_samples(call, y, g, weight, x);
    if (const std::optional<Phases> p = phases_of(g, x.dtype(), x.device()))
      return input_by_phases(call, y, *p, weight, bias, x);
  }
  return input_by_patches(call, y, g, weight, bias, x);
}

bool weight_gradient_gpu(const OpCall& call, const Geometry& g, Tensor& weight) {
  if (call.in[0].dtype() == f64) return false;
  if (weight.numel() == 0) return true;
  if (call.in[0].numel() == 0 || call.in[1].numel() == 0) {
    weight.zero_();
    return true;
  }
  const auto [source, x] = source_of_patches(call.in[0], g);
  return weight_of(call, source, x, call.in[1].contiguous(), weight);
}

}  // namespace etna::convolution
