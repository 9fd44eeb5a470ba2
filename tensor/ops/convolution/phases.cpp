#include <etna/tensor/ops/convolution/internal/phases.h>

#include <algorithm>

#include <etna/device/internal/rounding.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/internal/cubin.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna::convolution {
namespace {

/// True if one gemm of y's patches takes less time than one that writes x's patches in f32, and their sum.
bool faster(const Geometry& g, const Phases& p, DType t, Device device) {
  if (p.geometry.pointwise() && p.count() == g.taps()) return true;
  // In f32 the multiplications by zeros take longer than the patches.
  if (item_size(t) != 2) return false;
  const auto patch = static_cast<double>(g.taps() * g.c), depth = static_cast<double>(p.geometry.taps() * g.k);
  const double before = patch * static_cast<double>(g.k), now = depth * static_cast<double>(p.geometry.c);
  // An H200 multiplies by about 2000 more rows in the time in which it writes, reads and adds up one more patch.
  if (has_input_gradient_cubin(p.geometry, t, device)) return now - before < 2048 * patch;
  return depth <= patch && now <= 2 * before;
}

/// Zeros behind the channels of all phases. @param x [..., phases · C]
Tensor with_all_channels(const Tensor& x, const Phases& p) {
  const std::int64_t missing = p.geometry.c - x.size(-1);
  return missing == 0 ? x : pad(x, {0, missing});
}

}  // namespace

std::optional<Phases> phases_of(const Geometry& g, DType t, Device device) {
  // With phases of three dimensions, a copy would take a dispatch for each index of the first.
  if (g.groups != 1 || g.unit_stride() || g.stride[0] != 1 || g.dilation != Three{1, 1, 1}) return {};
  Phases p{.geometry = g, .stride = g.stride};
  Geometry& to = p.geometry;
  bool reaches = false;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t s = g.stride[d], k = g.kernel[d], padding = g.padding[d];
    if (g.in[d] % s != 0) return {};
    reaches = reaches || (s > 1 && k >= s);
    to.in[d] = g.in[d] / s, to.stride[d] = 1;
    // Tap 0 is at -padding = -s · to.padding + before.
    to.padding[d] = ceil_div(padding, s);
    p.before[d] = s * to.padding[d] - padding;
    to.kernel[d] = ceil_div(p.before[d] + k, s);
  }
  if (!reaches) return {};
  p.channels = g.c;
  to.c = ceil_div(p.count() * g.c, 8) * 8;  // rows are multiples of 16 bytes
  if (!faster(g, p, t, device)) return {};
  return p;
}

Tensor phases_of_weight(const Tensor& weight, const Phases& p) {
  const Three &kernel = p.geometry.kernel, &s = p.stride;
  std::vector<std::int64_t> zeros = {0, 0};
  for (std::size_t d = 3; d-- > 0;) {
    zeros.push_back(p.before[d]);
    zeros.push_back(s[d] * kernel[d] - p.before[d] - weight.size(static_cast<int>(d) + 1));
  }
  const bool whole = std::all_of(zeros.begin(), zeros.end(), [](std::int64_t n) { return n == 0; });
  const Tensor phases = (whole ? weight : pad(weight, zeros))
                            .reshape({weight.size(0), kernel[0], s[0], kernel[1], s[1], kernel[2], s[2], p.channels})
                            .permute({0, 1, 3, 5, 2, 4, 6, 7})
                            .reshape({weight.size(0), kernel[0], kernel[1], kernel[2], p.count() * p.channels});
  return with_all_channels(phases, p);
}

Tensor phases_of_bias(const Tensor& bias, const Phases& p) {
  if (!bias.defined()) return bias;
  return with_all_channels(bias.expand({p.count(), p.channels}).reshape({p.count() * p.channels}), p);
}

void copy_from_phases(const Tensor& phases, const Phases& p, Tensor x) {
  const Three &q = p.geometry.in, &s = p.stride;
  const std::int64_t n = phases.size(0), c = x.size(4);
  Tensor to = x.reshape({n, q[0], s[0], q[1], s[1], q[2], s[2], c}).permute({0, 1, 3, 5, 2, 4, 6, 7});
  to.copy_(phases.slice(4, 0, p.count() * c).reshape({n, q[0], q[1], q[2], s[0], s[1], s[2], c}));
}

}  // namespace etna::convolution
