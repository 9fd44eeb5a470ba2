#include <etna/tensor/ops/convolution/internal/cubin.h>

#include <bit>

#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/cubin.h>
#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>

namespace etna::convolution {
namespace {

using gemm::CubinFamily;
using gemm::CubinLayout;

/// The channels of a box: 128 bytes.
std::int64_t box_channels(DType t) { return 128 / static_cast<std::int64_t>(item_size(t)); }

/// True if the copy engine can walk such patches: from images, with tap offsets that fit a byte.
bool walks(const Geometry& g, DType t) {
  if (t != f32 && t != f16 && t != bf16) return false;
  const bool images = g.in[0] == 1 && g.out[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0;
  auto reach = [&](std::size_t d) { return (g.kernel[d] - 1) * g.dilation[d]; };
  return images && g.groups == 1 && g.c % box_channels(t) == 0 && reach(1) <= 255 && reach(2) <= 255;
}

auto images_map(const Tensor& x, const Geometry& g, std::int64_t pixels) {
  return gemm::tensor_map(gemm::TiledImages{.at = gpu::pointer(x),
                                            .dtype = x.dtype(),
                                            .channels = g.c,
                                            .width = g.in[2],
                                            .height = g.in[1],
                                            .images = g.n,
                                            .first_x = -g.padding[2],
                                            .first_y = -g.padding[1],
                                            .places_x = g.out[2],
                                            .places_y = g.out[1],
                                            .stride_x = g.stride[2],
                                            .stride_y = g.stride[1],
                                            .box_pixels = pixels});
}

/// The fields of hopper::Patches.
std::array<std::uint32_t, 14> patches(const Geometry& g) {
  auto number = [](std::int64_t n) { return std::bit_cast<std::uint32_t>(static_cast<std::int32_t>(n)); };
  // For the gradient by x, the weight's taps are in reverse order.
  return {
      number(g.out[2]),      number(g.out[1]),     number(g.stride[2]), number(g.stride[1]),   number(-g.padding[2]),
      number(-g.padding[1]), number(g.kernel[2]),  number(g.taps()),    number(g.dilation[2]), number(g.dilation[1]),
      number(g.c),           number(g.taps() - 1), number(-1),          number(-g.kernel[2])};
}

using Kernels = decltype(CubinFamily::kernels);

Kernels forward_kernels(DType t) {
  using namespace cubins;
  if (t == f32) return {&cubin_convolution_forward_f32, nullptr, &cubin_convolution_forward_f32_64};
  if (t == f16)
    return {&cubin_convolution_forward_f16, &cubin_convolution_forward_f16_256, &cubin_convolution_forward_f16_64,
            &cubin_convolution_forward_f16_64_resident};
  return {&cubin_convolution_forward_bf16, &cubin_convolution_forward_bf16_256, &cubin_convolution_forward_bf16_64,
          &cubin_convolution_forward_bf16_64_resident};
}
Kernels input_kernels(DType t) {
  using namespace cubins;
  if (t == f32) return {&cubin_convolution_input_f32, nullptr, &cubin_convolution_input_f32_64};
  if (t == f16)
    return {&cubin_convolution_input_f16, &cubin_convolution_input_f16_256, &cubin_convolution_input_f16_64,
            &cubin_convolution_input_f16_64_resident};
  return {&cubin_convolution_input_bf16, &cubin_convolution_input_bf16_256, &cubin_convolution_input_bf16_64,
          &cubin_convolution_input_bf16_64_resident};
}
Kernels weight_kernels(DType t) {
  using namespace cubins;
  if (t == f32) return {&cubin_convolution_weight_f32};
  if (t == f16) return {&cubin_convolution_weight_f16, &cubin_convolution_weight_f16_256};
  return {&cubin_convolution_weight_bf16, &cubin_convolution_weight_bf16_256};
}

Kernels weight_across_kernels(DType t) {
  using namespace cubins;
  if (t == f32) return {&cubin_convolution_weight_across_f32, nullptr, &cubin_convolution_weight_across_f32_64};
  return {nullptr, nullptr,
          t == f16 ? &cubin_convolution_weight_across_f16_64 : &cubin_convolution_weight_across_bf16_64};
}

/// True if y has so few channels that a tile of 64 columns suits the transpose of the weight's gradient.
bool suits_across(const Geometry& g, Device device) {
  return g.groups == 1 && g.k <= 64 && g.taps() * g.c > 64 && gpu::capabilities(device).cubin == 90;
}

gemm::GemmParams params(const Tensor& a, const Tensor& bias, const Tensor& y, std::int64_t m, std::int64_t n,
                        std::int64_t k) {
  gemm::GemmParams p;
  p.device = y.device(), p.dtype = a.dtype();
  p.m = m, p.n = n, p.k = k;
  p.y = {gpu::pointer(y), y.dtype(), n};
  p.bias = gpu::pointer(bias);
  if (bias.defined()) p.bias_dtype = bias.dtype();
  return p;
}

}  // namespace

bool convolve_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y) {
  if (!walks(g, x.dtype())) return false;
  const std::int64_t depth = g.taps() * g.c;
  const CubinFamily family{.layout = CubinLayout::nt,
                           .kernels = forward_kernels(x.dtype()),
                           .a = [&](std::int64_t rows, std::int64_t) { return images_map(x, g, rows); },
                           .b =
                               [&](std::int64_t rows, std::int64_t) {
                                 return gemm::tensor_map(gemm::TiledMatrix{.at = gpu::pointer(weight),
                                                                           .dtype = x.dtype(),
                                                                           .columns = depth,
                                                                           .rows = g.k,
                                                                           .leading = depth,
                                                                           .box_rows = rows});
                               },
                           .more = patches(g)};
  return gemm::launch_cubin_family(call, params(x, bias, y, g.n * g.out_pixels(), g.k, depth), family);
}

bool has_input_gradient_cubin(const Geometry& g, DType t, Device device) {
  return g.unit_stride() && walks(g.flipped(), t) && gpu::capabilities(device).cubin == 90 &&
         !input_kernels(t)[0]->cubin.empty();
}

bool input_gradient_by_cubin(const OpCall& call, const Geometry& given, const Tensor& y, const Tensor& weight,
                             const Tensor& bias, const Tensor& x) {
  const Geometry g = given.flipped();
  if (!given.unit_stride() || !walks(g, y.dtype())) return false;
  const CubinFamily family{.layout = CubinLayout::nn,
                           .kernels = input_kernels(y.dtype()),
                           .a = [&](std::int64_t rows, std::int64_t) { return images_map(y, g, rows); },
                           .b =
                               [&](std::int64_t, std::int64_t step) {
                                 // One matrix for each tap.
                                 return gemm::tensor_map(gemm::TiledMatrix{.at = gpu::pointer(weight),
                                                                           .dtype = y.dtype(),
                                                                           .columns = g.k,
                                                                           .rows = g.c,
                                                                           .leading = g.taps() * g.k,
                                                                           .matrices = g.taps(),
                                                                           .stride = g.k,
                                                                           .box_rows = step});
                               },
                           .more = patches(g)};
  return gemm::launch_cubin_family(call, params(y, bias, x, g.n * g.out_pixels(), g.k, g.taps() * g.c), family);
}

bool weight_is_made_across(const Geometry& g, const Tensor& x) {
  return x.dtype() == f32 && suits_across(g, x.device());
}

bool weight_gradient_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& y,
                              const Tensor& weight) {
  if (!walks(g, x.dtype())) return false;
  const std::int64_t pixels = g.n * g.out_pixels(), depth = g.taps() * g.c;
  const auto columns_of_y = [&](std::int64_t, std::int64_t step) {
    return gemm::tensor_map(gemm::TiledMatrix{
        .at = gpu::pointer(y), .dtype = x.dtype(), .columns = g.k, .rows = pixels, .leading = g.k, .box_rows = step});
  };
  const auto patches_of_x = [&](std::int64_t, std::int64_t step) { return images_map(x, g, step); };
  if (suits_across(g, x.device())) {
    const Tensor across = empty({depth, g.k}, {weight.dtype(), weight.device()});
    const CubinFamily family{.layout = CubinLayout::tn,
                             .kernels = weight_across_kernels(x.dtype()),
                             .a = patches_of_x,
                             .b = columns_of_y,
                             .more = patches(g)};
    if (!gemm::launch_cubin_family(call, params(x, {}, across, depth, g.k, pixels), family)) return false;
    Tensor result = weight.reshape({g.k, depth});
    result.copy_(across.t());
    return true;
  }
  const CubinFamily family{.layout = CubinLayout::tn,
                           .kernels = weight_kernels(x.dtype()),
                           .a = columns_of_y,
                           .b = patches_of_x,
                           .more = patches(g)};
  return gemm::launch_cubin_family(call, params(x, {}, weight, g.k, depth, pixels), family);
}

}  // namespace etna::convolution
