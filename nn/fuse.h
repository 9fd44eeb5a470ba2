#pragma once

#include <memory>
#include <type_traits>

#include <etna/nn/convolution.h>
#include <etna/nn/linear.h>
#include <etna/nn/normalization.h>

/// A layer and the BatchNorm behind it as one layer, for evaluation: the norm is then a factor and a shift of each
/// channel, and the layer's weight and bias take them in.
namespace etna::nn {

namespace fusing {
struct Weights {
  Tensor weight, bias;
};
/// @param weight [out, ...]; transposed: [in, out / groups, ...]
/// @throws Error unless both are in evaluation mode, and the norm has statistics of as many channels
Weights fuse(const char* name, const UnaryModule& layer, const Tensor& weight, const Tensor& bias,
             const BatchNorm& norm, bool transposed, std::int64_t groups);
/// Puts values, device and dtype into a layer, and that into evaluation mode.
void assign(Module& layer, const Weights& weights);
}  // namespace fusing

/// norm(conv(x)) as one convolution, transposed or not. The modules stay as they are.
///     const auto fused = nn::fuse_conv_bn_eval(net.conv, net.norm);
/// @throws Error unless both are in evaluation mode, and the norm has statistics of conv's channels
template <typename Conv>
requires(std::is_base_of_v<ConvBase, Conv>) std::unique_ptr<Conv> fuse_conv_bn_eval(const Conv& conv,
                                                                                    const BatchNorm& norm) {
  auto options = conv.options;
  constexpr bool transposed = std::is_same_v<std::remove_const_t<decltype(options)>, ConvTransposeOptions>;
  const fusing::Weights weights =
      fusing::fuse("fuse_conv_bn_eval", conv, conv.weight, conv.bias, norm, transposed, options.groups);
  options.bias = true;
  auto fused = std::make_unique<Conv>(conv.in_channels, conv.out_channels, conv.kernel_size, options);
  fusing::assign(*fused, weights);
  return fused;
}

/// norm(linear(x)) as one Linear.
std::unique_ptr<Linear> fuse_linear_bn_eval(const Linear& linear, const BatchNorm& norm);

}  // namespace etna::nn
