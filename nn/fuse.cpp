#include <etna/nn/fuse.h>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace fusing {

Weights fuse(const char* name, const UnaryModule& layer, const Tensor& weight, const Tensor& bias,
             const BatchNorm& norm, bool transposed, std::int64_t groups) {
  if (layer.training() || norm.training())
    throw Error(fmt::format("{}: the layers are in training mode; call eval() first", name));
  if (!norm.running_mean.defined())
    throw Error(fmt::format("{}: the norm has no running statistics; evaluation normalizes by each batch", name));
  const std::int64_t out = transposed ? checked_product(weight.size(1), groups, name) : weight.size(0);
  if (norm.num_features != out)
    throw ShapeError(fmt::format("{}: the layer has {} channels, the norm {}", name, out, norm.num_features));
  const GradMode off(false);
  const DType t = weight.dtype() == f64 ? f64 : f32;
  const auto wide = [&](const Tensor& x) { return x.detach().to(weight.device(), t); };
  Tensor factor = rsqrt(wide(norm.running_var) + norm.options.eps), shift = -wide(norm.running_mean);
  if (norm.weight.defined()) factor = factor * wide(norm.weight);
  if (bias.defined()) shift = shift + wide(bias);
  shift = shift * factor;
  if (norm.bias.defined()) shift = shift + wide(norm.bias);

  // Split into groups, so that the outputs of each stand in one dimension.
  Shape split = weight.shape(), channels = Dims::filled(weight.dim(), 1);
  if (transposed) {
    split[0] /= groups, channels[1] = split[1];
    split.insert(0, groups), channels.insert(0, groups);
  } else {
    channels[0] = out;
  }
  const Tensor fused = (wide(weight).reshape(split) * factor.reshape(channels)).reshape(weight.shape());
  return {fused.to(weight.dtype()), shift.to(weight.dtype())};
}

void assign(Module& layer, const Weights& weights) {
  layer.to(weights.weight.device());
  layer.to(weights.weight.dtype());
  layer.load_state_dict({{"weight", weights.weight}, {"bias", weights.bias}});
  layer.eval();
}

}  // namespace fusing

std::unique_ptr<Linear> fuse_linear_bn_eval(const Linear& linear, const BatchNorm& norm) {
  const fusing::Weights weights =
      fusing::fuse("fuse_linear_bn_eval", linear, linear.weight, linear.bias, norm, false, 1);
  auto fused = std::make_unique<Linear>(linear.weight.size(1), linear.weight.size(0));
  fusing::assign(*fused, weights);
  return fused;
}

}  // namespace etna::nn
