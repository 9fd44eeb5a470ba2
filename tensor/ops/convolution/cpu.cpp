#include <algorithm>

#include <etna/device/cpu/convolution/convolution.h>
#include <etna/device/cpu/parallel.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/geometry.h>

// Convolutions on the CPU: f32, and f16 and bf16 widened to it, by oneDNN; f64, and what oneDNN lacks, by patches and
// gemms.
namespace etna::convolution {
namespace {

cpu::Convolution sizes(const Geometry& g, const Settings& s) {
  cpu::Convolution c{.n = g.n,
                     .c = g.c,
                     .k = g.k,
                     .groups = g.groups,
                     .in = g.in,
                     .out = g.out,
                     .kernel = g.kernel,
                     .stride = g.stride,
                     .padding = g.padding,
                     .padding_behind = s.padding_behind,
                     .dilation = g.dilation};
  for (std::size_t d = 0; d < 3; ++d) {
    // A transposed convolution may end beyond what its convolution reads.
    const std::int64_t reach = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    const std::int64_t beyond = g.in[d] + g.padding[d] + c.padding_behind[d] - reach;
    if (beyond < 0 || beyond >= g.stride[d]) c.padding_behind[d] = reach - g.in[d] - g.padding[d];
    // Padding that no kernel reaches changes nothing, and oneDNN wants none below 0.
    const std::int64_t unread = g.in[d] + g.padding[d] + c.padding_behind[d] - reach;
    if (c.padding_behind[d] < 0) c.padding_behind[d] += std::min(-c.padding_behind[d], g.stride[d] - 1 - unread);
  }
  return c;
}

bool empty_or_f64(const Tensor& y, const Tensor& a, const Tensor& b) {
  return y.dtype() == f64 || a.dtype() == f64 || y.numel() == 0 || a.numel() == 0 || b.numel() == 0;
}

Tensor floats(const Tensor& x) { return x.defined() ? x.to(f32).contiguous() : x; }

/// Runs compute(float*) on y, or on an f32 copy that is then rounded to it.
template <typename Compute>
bool into(Tensor& y, const Compute& compute) {
  Tensor result = y.dtype() == f32 ? y : empty(y.shape(), {f32, kCPU});
  if (!compute(result.host<float>())) return false;
  if (y.dtype() != f32) y.copy_(result);
  return true;
}

const float* data(const Tensor& x) { return x.defined() ? x.host<float>() : nullptr; }

}  // namespace

void convolve_cpu(const OpCall& call, const Geometry& g, Tensor& y) {
  const auto s = call.as<Settings>();
  const Tensor &x = call.in[0], &weight = call.in[1], &bias = call.in[2];
  const bool done = !empty_or_f64(y, x, weight) && into(y, [&](float* to) {
    const Tensor a = floats(x), b = floats(weight), c = floats(bias);
    return cpu::convolution(sizes(g, s), data(a), data(b), data(c), to);
  });
  if (!done) y.copy_(convolve_composed(x, weight, bias, s));
}

void input_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& x) {
  const auto s = call.as<Settings>();
  const Tensor &y = call.in[0], &weight = call.in[1], &bias = call.in[2];
  const bool done = !empty_or_f64(x, y, weight) && into(x, [&](float* to) {
    const Tensor a = floats(y), b = floats(weight), c = floats(bias);
    if (!cpu::convolution_input(sizes(g, s), data(a), data(b), to)) return false;
    if (!c.defined()) return true;
    const float* add = data(c);
    cpu::parallel_for(g.n * g.in_pixels(), std::max<std::int64_t>(1, (1 << 14) / g.c),
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t p = begin; p < end; ++p) {
                          for (std::int64_t i = 0; i < g.c; ++i) to[p * g.c + i] += add[i];
                        }
                      });
    return true;
  });
  if (!done) x.copy_(input_gradient_composed(y, weight, bias, s));
}

void weight_gradient_cpu(const OpCall& call, const Geometry& g, Tensor& weight) {
  const auto s = call.as<Settings>();
  const Tensor &x = call.in[0], &y = call.in[1];
  const bool done = !empty_or_f64(weight, x, y) && into(weight, [&](float* to) {
    const Tensor a = floats(x), b = floats(y);
    return cpu::convolution_weight(sizes(g, s), data(a), data(b), to);
  });
  if (!done) weight.copy_(weight_gradient_composed(x, y, s));
}

}  // namespace etna::convolution
