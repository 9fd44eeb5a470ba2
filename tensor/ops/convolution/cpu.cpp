#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/internal/cpu/convolution.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>

// Convolutions on the CPU. oneDNN computes f32, and bf16 if the processor supports it; f16, and bf16 elsewhere, are
// converted to f32; f64, and anything that oneDNN lacks, is computed by patches and gemms.
namespace etna::convolution {
namespace {

cpu::Convolution sizes(const Geometry& g, const ConvolutionAttrs& s, DType type) {
  cpu::Convolution c{.n = g.n,
                     .c = g.c,
                     .k = g.k,
                     .groups = g.groups,
                     .in = g.in,
                     .out = g.out,
                     .kernel = g.kernel,
                     .stride = g.stride,
                     .padding = g.padding,
                     .padding_after = s.padding_after,
                     .dilation = g.dilation,
                     .bf16 = type == bf16};
  for (std::size_t d = 0; d < 3; ++d) {
    // A transposed convolution may end beyond the input that its convolution reads.
    const std::int64_t reach = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    const std::int64_t beyond = g.in[d] + g.padding[d] + c.padding_after[d] - reach;
    if (beyond < 0 || beyond >= g.stride[d]) c.padding_after[d] = reach - g.in[d] - g.padding[d];
    // Padding that no kernel reaches changes nothing, and oneDNN rejects negative padding.
    const std::int64_t unread = g.in[d] + g.padding[d] + c.padding_after[d] - reach;
    if (c.padding_after[d] < 0) c.padding_after[d] += std::min(-c.padding_after[d], g.stride[d] - 1 - unread);
  }
  return c;
}

bool empty_or_f64(const Tensor& y, const Tensor& a, const Tensor& b) {
  return y.dtype() == f64 || a.dtype() == f64 || y.numel() == 0 || a.numel() == 0 || b.numel() == 0;
}

/// The dtype in which a convolution of such tensors computes.
DType operand_dtype(const Tensor& x) { return x.dtype() == bf16 && cpu::convolves_bf16() ? bf16 : f32; }

Tensor convolution_cpu_dense(const Tensor& x, DType type) { return x.defined() ? x.to(type).contiguous() : x; }

/// The weight in its own layout, made contiguous if a stride is 0.
struct Weight {
  Tensor values;
  cpu::StridedWeight strided;

  Weight(const Tensor& given, DType type) : values(given.to(type)) {
    for (int d = 0; d < 5; ++d) {
      if (values.shape()[d] > 1 && values.strides()[d] < 1) values = values.contiguous();
    }
    strided.data = values.raw_data();
    for (int d = 0; d < 5; ++d)
      strided.strides[static_cast<std::size_t>(d)] = std::max<std::int64_t>(1, values.strides()[d]);
  }
};

/// Runs compute(void*) on y, or on a tensor of another dtype that is then rounded to y.
template <typename Compute>
bool into(Tensor& y, DType type, const Compute& compute) {
  Tensor result = y.dtype() == type ? y : empty(y.shape(), {type, kCPU});
  if (!compute(result.raw_host())) return false;
  if (y.dtype() != type) y.copy_(result);
  return true;
}

const float* floats(const Tensor& x) { return x.defined() ? x.host<float>() : nullptr; }

/// x [pixels, channels] += bias
template <typename T>
void add_bias(T* x, const float* bias, std::int64_t pixels, std::int64_t channels) {
  cpu::parallel_for(pixels, std::max<std::int64_t>(1, (1 << 14) / channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      for (std::int64_t i = 0; i < channels; ++i) {
        x[p * channels + i] = static_cast<T>(static_cast<float>(x[p * channels + i]) + bias[i]);
      }
    }
  });
}

}  // namespace

void convolve_cpu(const OpCall& call, const Geometry& g, Tensor& y) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &x = call.in[0], &weight = call.in[1], &bias = call.in[2];
  const DType type = operand_dtype(x);
  const bool done = !empty_or_f64(y, x, weight) && into(y, type, [&](void* to) {
    const Tensor a = convolution_cpu_dense(x, type), c = convolution_cpu_dense(bias, f32);
    return cpu::convolution(sizes(g, s, type), a.raw_data(), Weight(weight, type).strided, floats(c), to);
  });
  if (!done) y.copy_(convolve_composed(x, weight, bias, s));
}

void input_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& x) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &y = call.in[0], &weight = call.in[1], &bias = call.in[2];
  const DType type = operand_dtype(y);
  const bool done = !empty_or_f64(x, y, weight) && into(x, type, [&](void* to) {
    const Tensor a = convolution_cpu_dense(y, type);
    const cpu::Convolution c = sizes(g, s, type);
    if (cpu::has_few_channels(c))
      cpu::few_channels_input(c, a.raw_data(), convolution_cpu_dense(weight, type).raw_data(), to);
    else if (!cpu::convolution_input(c, a.raw_data(), Weight(weight, type).strided, to))
      return false;
    if (!bias.defined()) return true;
    const Tensor added = convolution_cpu_dense(bias, f32);
    const std::int64_t pixels = g.n * g.in_pixels();
    if (type == bf16)
      add_bias(static_cast<BFloat16*>(to), floats(added), pixels, g.c);
    else
      add_bias(static_cast<float*>(to), floats(added), pixels, g.c);
    return true;
  });
  if (!done) x.copy_(input_gradient_composed(y, weight, bias, s));
}

void weight_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& weight) {
  const auto s = call.as<ConvolutionAttrs>();
  const Tensor &x = call.in[0], &y = call.in[1];
  const DType type = operand_dtype(x);
  const bool done = !empty_or_f64(weight, x, y) && into(weight, f32, [&](void* to) {
    const Tensor a = convolution_cpu_dense(x, type), b = convolution_cpu_dense(y, type);
    return cpu::convolution_weight(sizes(g, s, type), a.raw_data(), b.raw_data(), static_cast<float*>(to));
  });
  if (!done) weight.copy_(weight_gradient_composed(x, y, s));
}

}  // namespace etna::convolution
