#include <fmt/format.h>

#include <etna/nn/normalization.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/pooling/pooling.h>

#include "measure.h"

// The convolutions of ResNet-18 (He et al. 2015), its first pooling and batch norm.
namespace bench {

using namespace etna;

namespace {

struct Layer {
  std::int64_t in, out, kernel, stride, size;
};
constexpr Layer kLayers[] = {{3, 64, 7, 2, 224},   {64, 64, 3, 1, 56},  {64, 128, 3, 2, 56}, {128, 128, 3, 1, 28},
                             {256, 256, 3, 1, 14}, {512, 512, 3, 1, 7}, {64, 128, 1, 2, 56}};

Tensor random(Shape shape, const Setting& setting) {
  return randn(shape).to(setting.device, setting.dtype).requires_grad_();
}

}  // namespace

void convolutions(const Setting& setting, const Print& print) {
  manual_seed(1);
  const std::int64_t batch = setting.device.is_cpu() ? 4 : 64;
  for (const Layer& layer : kLayers) {
    const Tensor w = random({layer.out, layer.in, layer.kernel, layer.kernel}, setting);
    const Tensor rows = random({batch, layer.size, layer.size, layer.in}, setting);
    const Tensor weight_rows = random({layer.out, layer.kernel, layer.kernel, layer.in}, setting);
    const Tensor planes = random({batch, layer.in, layer.size, layer.size}, setting);
    const std::string name = fmt::format("b{} {}->{} k{} s{} {}x{}", batch, layer.in, layer.out, layer.kernel,
                                         layer.stride, layer.size, layer.size);
    print(timed(setting, "conv", name, [&] { return conv2d(planes, w, {}, layer.stride, layer.kernel / 2); },
                {planes, w}));
    const auto with_last_channels = [&] {
      return conv2d(rows.permute({0, 3, 1, 2}), weight_rows.permute({0, 3, 1, 2}), {}, layer.stride, layer.kernel / 2);
    };
    print(timed(setting, "conv", name + " channels-last", with_last_channels, {rows, weight_rows}));
  }
  const Tensor x = random({batch, 64, 112, 112}, setting);
  print(timed(setting, "conv", fmt::format("b{} max_pool 3 s2 64x112x112", batch),
              [&] { return max_pool2d(x, 3, 2, 1); }, {x}));
  nn::BatchNorm2d norm(64);
  norm.to(setting.device);
  norm.to(setting.dtype);
  print(timed(setting, "conv", fmt::format("b{} batch_norm 64x112x112", batch), [&] { return norm(x); },
              {x, norm.weight, norm.bias}));
}

}  // namespace bench
