#include <etna/nn/batch_norm.h>

#include <fmt/format.h>

#include <etna/tensor/normalization.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

BatchNorm::BatchNorm(std::int64_t num_features, const BatchNormOptions& given, int least_rank, int most_rank)
    : options(given), least_rank_(least_rank), most_rank_(most_rank) {
  if (options.affine) weight = ones({num_features}), bias = zeros({num_features});
  if (options.track_running_stats) {
    running_mean = zeros({num_features}), running_var = ones({num_features});
    num_batches_tracked = zeros({}, i64);
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  register_buffer("running_mean", running_mean);
  register_buffer("running_var", running_var);
  register_buffer("num_batches_tracked", num_batches_tracked);
}

Tensor BatchNorm::forward(const Tensor& x) const {
  if (x.dim() < least_rank_ || x.dim() > most_rank_) {
    throw ShapeError(fmt::format("BatchNorm: the input {} has {} dimensions, this class takes {}{}", str(x.shape()),
                                 x.dim(), least_rank_,
                                 most_rank_ > least_rank_ ? fmt::format(" or {}", most_rank_) : ""));
  }
  const bool own = training() || !running_mean.defined();
  return batch_norm_tracked(x, {running_mean, running_var, num_batches_tracked, options.momentum}, weight, bias, own,
                            options.eps);
}

InstanceNorm::InstanceNorm(std::int64_t num_features, const InstanceNormOptions& given, int spatial)
    : options(given), spatial_(spatial) {
  if (options.affine) weight = ones({num_features}), bias = zeros({num_features});
  if (options.track_running_stats) {
    running_mean = zeros({num_features}), running_var = ones({num_features});
    num_batches_tracked = zeros({}, i64);
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  register_buffer("running_mean", running_mean);
  register_buffer("running_var", running_var);
  register_buffer("num_batches_tracked", num_batches_tracked);
}

Tensor InstanceNorm::forward(const Tensor& x) const {
  if (x.dim() == spatial_ + 1) return forward(x.unsqueeze(0)).squeeze(0);
  if (x.dim() != spatial_ + 2) {
    throw ShapeError(fmt::format("InstanceNorm: the input {} has {} dimensions, this class takes {} or {}",
                                 str(x.shape()), x.dim(), spatial_ + 1, spatial_ + 2));
  }
  return instance_norm(x, running_mean, running_var, weight, bias, training() || !running_mean.defined(),
                       options.momentum, options.eps);
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps, bool affine)
    : num_groups(num_groups), eps(eps) {
  if (num_groups < 1 || num_channels % num_groups != 0)
    throw ShapeError(fmt::format("GroupNorm: {} channels do not form {} equal groups", num_channels, num_groups));
  if (affine) weight = ones({num_channels}), bias = zeros({num_channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor GroupNorm::forward(const Tensor& x) const { return group_norm(x, num_groups, weight, bias, eps); }

Tensor LocalResponseNorm::forward(const Tensor& x) const { return local_response_norm(x, size, alpha, beta, k); }

}  // namespace etna::nn
