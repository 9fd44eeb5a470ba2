#include <etna/tensor/ops/convolution/internal/geometry.h>

#include <fmt/format.h>

namespace etna::convolution {

bool Geometry::pointwise() const { return taps() == 1 && unit_stride() && padding == Three{} && in == out; }

Geometry Geometry::flipped() const {
  Geometry f = *this;
  std::swap(f.c, f.k);
  std::swap(f.in, f.out);
  for (std::size_t d = 0; d < 3; ++d) f.padding[d] = dilation[d] * (kernel[d] - 1) - padding[d];
  return f;
}

Three spatial(const Shape& shape) { return {shape[1], shape[2], shape[3]}; }

Shape channels_last(std::int64_t n, const Three& s, std::int64_t channels) { return {n, s[0], s[1], s[2], channels}; }

Geometry geometry(const ConvolutionAttrs& s, const Shape& x, const Shape& y, const Three& kernel) {
  return {.n = x[0],
          .c = x.back(),
          .k = y.back(),
          .groups = s.groups,
          .in = spatial(x),
          .out = spatial(y),
          .kernel = kernel,
          .stride = s.stride,
          .padding = s.padding,
          .dilation = s.dilation};
}

const char* public_name(const ConvolutionAttrs& s) {
  static constexpr const char* names[] = {"conv1d",           "conv2d",           "conv3d",
                                          "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  return names[s.dims - 1 + (s.transposed ? 3 : 0)];
}

Three result_sizes(const char* op, const ConvolutionAttrs& s, const Three& x, const Three& kernel) {
  Three y{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t reach = checked_sum(checked_product(s.dilation[d], kernel[d] - 1, op), 1, op);
    const std::int64_t padded = checked_sum(x[d], checked_sum(s.padding[d], s.padding_after[d], op), op);
    if (padded < reach) {
      throw ShapeError(fmt::format(
          "{}: the kernel reaches over {} elements, the padded input has {} there (size {}, padding {} and {}); a "
          "smaller kernel or dilation, or more padding, would fit",
          op, reach, padded, x[d], s.padding[d], s.padding_after[d]));
    }
    y[d] = (padded - reach) / s.stride[d] + 1;
  }
  return y;
}

}  // namespace etna::convolution
