#include <algorithm>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/nn/module.h>
#include <etna/nn/normalization.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

/// [C] as a tensor that broadcasts over [N, C, ...].
Tensor of_channels(const Tensor& x, int dims) {
  Shape shape = {x.numel()};
  for (int d = 2; d < dims; ++d) shape.push_back(1);
  return x.reshape(shape);
}

void track(const RunningStatistics& running, const Tensor& mean, const Tensor& var) {
  const GradMode off(false);
  Tensor running_mean = running.mean, running_var = running.var, batches = running.num_batches_tracked;
  Tensor share = scalar(running.momentum.value_or(0), {mean.dtype(), mean.device()});
  if (batches.defined()) batches.add_(1);
  if (!running.momentum) share = 1.0 / batches.to(mean.dtype());
  running_mean.copy_(lerp(running_mean.to(mean.dtype()), mean, share));
  running_var.copy_(lerp(running_var.to(mean.dtype()), var, share));
}

}  // namespace

Tensor sync_batch_norm(const Tensor& x, const RunningStatistics& running, const Tensor& weight, const Tensor& bias,
                       double eps) {
  detail::require_defined("sync_batch_norm", x);
  if (x.dim() < 2)
    throw ShapeError(fmt::format("sync_batch_norm: x is {}; it must be [N, C] or [N, C, ...]", str(x.shape())));
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("sync_batch_norm: x is {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 name(x.dtype())));
  const std::int64_t channels = x.size(1);
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  const Tensor wide = x.to(dtype);
  Dims others = {0};
  for (int d = 2; d < x.dim(); ++d) others.push_back(d);
  std::int64_t count = 1;
  for (const std::int64_t d : others) count *= x.size(d);
  // Each rank's mean, and its sum of squares around that: sums of squares themselves would lose digits.
  const Tensor own_mean = sum(wide, others) / static_cast<double>(std::max<std::int64_t>(count, 1));
  const Tensor own_squares = sum(square(wide - of_channels(own_mean, x.dim())), others);
  const Tensor own_count = full({1}, static_cast<double>(count), {dtype, x.device()});
  const Tensor all = distributed::all_gather(cat({own_mean, own_squares, own_count}, 0).unsqueeze(0));
  const Tensor means = all.slice(1, 0, channels), squares = all.slice(1, channels, 2 * channels);
  const Tensor counts = all.slice(1, 2 * channels, 2 * channels + 1).detach();
  const Tensor total = clamp(sum(counts), 1.0, {});
  const Tensor mean = sum(means * counts, {0}) / total;
  const Tensor around = sum(squares + square(means - mean) * counts, {0});
  if (running.mean.defined()) track(running, mean, around / clamp(total - 1.0, 1.0, {}));
  Tensor scale = rsqrt(around / total + eps);
  if (weight.defined()) scale = scale * weight.to(dtype);
  Tensor y = (wide - of_channels(mean, x.dim())) * of_channels(scale, x.dim());
  if (bias.defined()) y = y + of_channels(bias.to(dtype), x.dim());
  return y.to(x.dtype());
}

int convert_sync_batchnorm(Module& model) {
  int found = 0;
  for (Module* module : model.modules()) {
    auto* norm = dynamic_cast<BatchNorm*>(module);
    if (norm == nullptr) continue;
    norm->options.synchronized = true;
    ++found;
  }
  return found;
}

}  // namespace etna::nn
