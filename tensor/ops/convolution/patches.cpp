#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// The patches that a kernel visits (im2col), and their sum at their positions (col2im): each is the gradient of the
// other.
namespace etna {
namespace convolution {
namespace {

std::int64_t product(const Three& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

std::vector<OutputSpec> im2col_infer(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor& x = call.in[0];
  const Three y = result_sizes("im2col", s, spatial(x.shape()), s.kernel);
  return {{{x.size(0), product(y), product(s.kernel), x.size(-1)}, x.dtype()}};
}

Geometry im2col_geometry(const ConvolutionAttrs& s, const Tensor& x) {
  const Three y = result_sizes("im2col", s, spatial(x.shape()), s.kernel);
  return geometry(s, x.shape(), channels_last(x.size(0), y, x.size(-1)), s.kernel);
}
Geometry col2im_geometry(const ConvolutionAttrs& s, const Tensor& patches) {
  const Shape x = channels_last(patches.size(0), s.extent, patches.size(-1));
  const Three y = result_sizes("col2im", s, s.extent, s.kernel);
  return geometry(s, x, channels_last(patches.size(0), y, patches.size(-1)), s.kernel);
}

std::vector<OutputSpec> col2im_infer(const OpCall& call) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor& patches = call.in[0];
  if (!is_floating(patches.dtype())) {
    throw DtypeError(
        fmt::format("fold: the patches hold {}, their sums are floating; call .to(f32)", name(patches.dtype())));
  }
  return {{channels_last(patches.size(0), s.extent, patches.size(-1)), patches.dtype()}};
}

/// One step through pixels in row-major order.
struct Pixel {
  std::int64_t image = 0;
  Three at{};

  Pixel(std::int64_t index, const Three& sizes) {
    at[2] = index % sizes[2], index /= sizes[2];
    at[1] = index % sizes[1], index /= sizes[1];
    at[0] = index % sizes[0], image = index / sizes[0];
  }
};

/// Calls use(tap, place) for each tap of a pixel that falls on x, in order; `place` is the element of x's image.
template <typename Use, typename Outside>
void each_tap(const Geometry& g, const Pixel& pixel, const Use& use, const Outside& outside) {
  std::int64_t tap = 0;
  for (std::int64_t d = 0; d < g.kernel[0]; ++d) {
    const std::int64_t z = pixel.at[0] * g.stride[0] - g.padding[0] + d * g.dilation[0];
    for (std::int64_t h = 0; h < g.kernel[1]; ++h) {
      const std::int64_t y = pixel.at[1] * g.stride[1] - g.padding[1] + h * g.dilation[1];
      const bool line = z >= 0 && z < g.in[0] && y >= 0 && y < g.in[1];
      for (std::int64_t w = 0; w < g.kernel[2]; ++w, ++tap) {
        const std::int64_t x = pixel.at[2] * g.stride[2] - g.padding[2] + w * g.dilation[2];
        if (line && x >= 0 && x < g.in[2])
          use(tap, (z * g.in[1] + y) * g.in[2] + x);
        else
          outside(tap);
      }
    }
  }
}

void im2col_cpu(const OpCall& call, std::span<Tensor> out) {
  gather_patches_cpu(call.in[0], im2col_geometry(call.as<ConvolutionAttrs>(), call.in[0]), out[0]);
}
void col2im_cpu(const OpCall& call, std::span<Tensor> out) {
  add_patches_cpu(call.in[0], col2im_geometry(call.as<ConvolutionAttrs>(), call.in[0]), out[0]);
}

Rows convolution_patches_dense(const Tensor& patches, const Geometry& g) { return {patches, g.taps() * g.c, 0}; }

bool im2col_gpu(const OpCall& call, std::span<Tensor> out) {
  if (item_size(out[0].dtype()) == 1) return false;
  Geometry g = im2col_geometry(call.as<ConvolutionAttrs>(), call.in[0]);
  g.groups = 1;
  if (out[0].numel() > 0) gather_patches_gpu(call, call.in[0], g, convolution_patches_dense(out[0], g), false);
  return true;
}
bool col2im_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  Geometry g = col2im_geometry(call.as<ConvolutionAttrs>(), call.in[0]);
  g.groups = 1;
  return out[0].numel() == 0 ||
         add_patches_gpu(call, convolution_patches_dense(call.in[0].contiguous(), g), g, {}, out[0]);
}

TensorList im2col_vjp(const VjpCall& call) { return {col2im(call.grad[0], call.as<ConvolutionAttrs>())}; }
TensorList col2im_vjp(const VjpCall& call) { return {im2col(call.grad[0], call.as<ConvolutionAttrs>())}; }

const OpDef kIm2col = {
    .name = "im2col", .infer = im2col_infer, .cpu = im2col_cpu, .gpu = im2col_gpu, .vjp = im2col_vjp};
const OpDef kCol2im = {
    .name = "col2im", .infer = col2im_infer, .cpu = col2im_cpu, .gpu = col2im_gpu, .vjp = col2im_vjp};

}  // namespace

void gather_patches_cpu(const Tensor& given, const Geometry& g, Tensor& patches) {
  const Tensor x = given.contiguous();
  const std::int64_t row = g.taps() * g.c, image = g.in_pixels() * g.c;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = patches.host<T>();
    cpu::parallel_for(
        g.n * g.out_pixels(), std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, row)),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t p = begin; p < end; ++p) {
            const Pixel pixel(p, g.out);
            T* slots = to + p * row;
            const T* start = from + pixel.image * image;
            each_tap(
                g, pixel,
                [&](std::int64_t tap, std::int64_t place) { std::copy_n(start + place * g.c, g.c, slots + tap * g.c); },
                [&](std::int64_t tap) { std::fill_n(slots + tap * g.c, g.c, T{}); });
          }
        });
  });
}

void add_patches_cpu(const Tensor& given, const Geometry& g, Tensor& x) {
  const Tensor patches = given.contiguous();
  const std::int64_t row = g.taps() * g.c, image = g.in_pixels() * g.c;
  // Each task takes its own channels, so that no two tasks add to the same element.
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
      constexpr std::int64_t kChannels = 16;
      const std::int64_t blocks = (g.c + kChannels - 1) / kChannels;
      const T* from = patches.host<T>();
      T* to = x.host<T>();
      const std::int64_t work = std::max<std::int64_t>(1, g.out_pixels() * g.taps() * kChannels);
      cpu::parallel_for(g.n * blocks, std::max<std::int64_t>(1, rows::kGrain / work),
                        [&](std::int64_t begin, std::int64_t end) {
                          cpu::Scratch<Sum> sums(static_cast<std::size_t>(g.in_pixels() * kChannels));
                          for (std::int64_t b = begin; b < end; ++b) {
                            const std::int64_t n = b / blocks, c = b % blocks * kChannels;
                            const std::int64_t count = std::min(kChannels, g.c - c);
                            std::fill(sums.begin(), sums.end(), Sum{});
                            for (std::int64_t p = 0; p < g.out_pixels(); ++p) {
                              const T* slots = from + (n * g.out_pixels() + p) * row + c;
                              each_tap(
                                  g, Pixel(p, g.out),
                                  [&](std::int64_t tap, std::int64_t place) {
                                    Sum* sum = sums.data() + place * kChannels;
                                    const T* slot = slots + tap * g.c;
                                    for (std::int64_t i = 0; i < count; ++i) sum[i] += rows::convert<Sum>(slot[i]);
                                  },
                                  [](std::int64_t) {});
                            }
                            for (std::int64_t p = 0; p < g.in_pixels(); ++p) {
                              T* y = to + n * image + p * g.c + c;
                              const Sum* sum = sums.data() + p * kChannels;
                              for (std::int64_t i = 0; i < count; ++i) y[i] = rows::convert<T>(sum[i]);
                            }
                          }
                        });
    }
  });
}

bool gathers_elements(const Geometry& g, std::int64_t row, DType t) {
  constexpr std::int64_t kLongest = 1024;  // in the shader: elements of a row, and offsets of taps
  const auto item = static_cast<std::int64_t>(item_size(t));
  bool near = true;
  for (std::size_t d = 0; d < 3; ++d) near = near && (g.kernel[d] - 1) * g.dilation[d] < kLongest;
  return g.groups == 1 && near && row <= kLongest && g.c * item < 64 && (item == 2 || item == 4) &&
         row * item % 16 == 0;
}

namespace {

void im2col_few(const OpCall& call, const Tensor& x, const Geometry& g, const Rows& to, bool reversed) {
  const auto item = static_cast<std::int64_t>(item_size(x.dtype()));
  const std::int64_t row_units = to.row * item / 16;
  const std::int64_t n = checked_product(x.size(0) * g.out_pixels(), row_units, call.op.name);
  std::array<std::uint32_t, 5> strides = {};
  for (std::size_t d = 0; d < 5; ++d) strides[d] = gpu::u32(x.strides()[static_cast<int>(d)]);
  gpu::Kernel(shaders::im2col_few, call)
      .spec(item, reversed)
      .read(x)
      .write(to.patches)
      .u32(n, row_units, to.row, g.taps() * g.c, g.taps(), g.c)
      .u32(g.in[0], g.in[1], g.in[2], g.kernel[1], g.kernel[2], g.out[0], g.out[1], g.out[2])
      .u32(g.stride[0], g.stride[1], g.stride[2], g.padding[0], g.padding[1], g.padding[2])
      .u32(g.dilation[0], g.dilation[1], g.dilation[2])
      .u32(strides)
      .dispatch(gpu::grid(n, 1024));
}

}  // namespace

void gather_patches_gpu(const OpCall& call, const Tensor& given, const Geometry& g, const Rows& to, bool reversed) {
  if (gathers_elements(g, to.row, given.dtype()) && to.patches.address() % 16 == 0) {
    return im2col_few(call, given, g, to, reversed);
  }
  const Tensor x = given.contiguous();
  const auto item = static_cast<std::int64_t>(item_size(x.dtype()));
  const std::int64_t channels = g.c_per_group();
  std::int64_t unit = 16;
  auto fits = [&](std::int64_t elements) { return elements * item % unit == 0; };
  auto aligned = [&](const Tensor& t) { return t.address() % static_cast<std::uint64_t>(unit) == 0; };
  while (unit > item && !(fits(channels) && fits(to.row) && fits(to.group) && aligned(x) && aligned(to.patches)))
    unit /= 2;
  auto units = [&](std::int64_t elements) { return elements * item / unit; };
  const std::int64_t n = checked_product(x.size(0) * g.out_pixels(), units(g.c), call.op.name);
  auto groups = gpu::grid(n, 256);
  groups[2] = gpu::u32((g.taps() + 31) / 32);
  gpu::Kernel(shaders::im2col, call)
      .spec(unit, reversed)
      .read(x)
      .write(to.patches)
      .u32(n, units(g.c), units(channels), g.taps(), units(to.row), units(to.group))
      .u32(g.in[0], g.in[1], g.in[2], g.kernel[1], g.kernel[2], g.out[0], g.out[1], g.out[2])
      .u32(g.stride[0], g.stride[1], g.stride[2], g.padding[0], g.padding[1], g.padding[2])
      .u32(g.dilation[0], g.dilation[1], g.dilation[2])
      .dispatch(groups);
}

bool add_patches_gpu(const OpCall& call, const Rows& from, const Geometry& g, const Tensor& given_bias,
                     const Tensor& x) {
  const std::uint32_t most = gpu::capabilities(x.device()).most_iterations;
  if (most != 0 && g.taps() >= most) return false;
  const Tensor bias = given_bias.defined() ? given_bias.contiguous() : given_bias;
  const std::int64_t channels = g.c_per_group();
  std::int64_t width = 4;
  auto fits = [&](const Tensor& t) {
    return !t.defined() || t.address() % (static_cast<std::uint64_t>(width) * item_size(t.dtype())) == 0;
  };
  while (width > 1 && !(channels % width == 0 && from.row % width == 0 && from.group % width == 0 &&
                        fits(from.patches) && fits(x) && fits(bias)))
    width /= 2;
  const std::int64_t places = x.size(0) * g.in_pixels();
  gpu::Kernel(shaders::col2im, call)
      .spec(from.patches.dtype(), x.dtype(), bias.defined() ? bias.dtype() : f32, bias.defined(), width)
      .read(from.patches)
      .read(bias)
      .write(x)
      .u32(places, g.groups, channels, from.row, from.group)
      .u32(g.in[0], g.in[1], g.in[2], g.kernel[0], g.kernel[1], g.kernel[2], g.out[0], g.out[1], g.out[2])
      .u32(g.stride[0], g.stride[1], g.stride[2], g.padding[0], g.padding[1], g.padding[2])
      .u32(g.dilation[0], g.dilation[1], g.dilation[2])
      .dispatch(gpu::grid(checked_product(places, g.groups * ((channels + 3) / 4), call.op.name), 256));
  return true;
}

Tensor im2col(const Tensor& x, const ConvolutionAttrs& s) { return apply1(kIm2col, {x}, Attrs::of(s)); }
Tensor col2im(const Tensor& patches, const ConvolutionAttrs& s) { return apply1(kCol2im, {patches}, Attrs::of(s)); }

}  // namespace convolution

std::span<const OpDef* const> ops_in_patches() {
  using namespace convolution;
  static const OpDef* const list[] = {&kIm2col, &kCol2im};
  return list;
}

}  // namespace etna
