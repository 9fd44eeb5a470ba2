#include <etna/nn/normalization.h>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/nn/module.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

ChannelNorm::ChannelNorm(const char* name, std::int64_t num_features, bool affine, bool track_running_stats)
    : num_features(checked_size(name, "num_features", num_features)) {
  if (affine) weight = ones({num_features}), bias = zeros({num_features});
  if (track_running_stats) {
    running_mean = zeros({num_features}), running_var = ones({num_features});
    num_batches_tracked = zeros({}, i64);
  }
  register_parameter("weight", &ChannelNorm::weight);
  register_parameter("bias", &ChannelNorm::bias);
  register_buffer("running_mean", &ChannelNorm::running_mean);
  register_buffer("running_var", &ChannelNorm::running_var);
  register_buffer("num_batches_tracked", &ChannelNorm::num_batches_tracked);
}

void ChannelNorm::reset_statistics() {
  if (!running_mean.defined()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

std::string ChannelNorm::repr_with(double eps, std::optional<double> momentum, bool affine, bool track) const {
  return fmt::format("{}, {}, momentum={}, affine={}, track_running_stats={}", num_features, repr_of("eps", eps),
                     momentum ? repr_of(*momentum) : "None", repr_of(affine), repr_of(track));
}

BatchNorm::BatchNorm(const char* name, std::int64_t num_features, const BatchNormOptions& given, int least_rank,
                     int most_rank)
    : ChannelNorm(name, num_features, given.affine, given.track_running_stats),
      options(given),
      name_(name),
      least_rank_(least_rank),
      most_rank_(most_rank) {}

Tensor BatchNorm::forward(const Tensor& x) const {
  if (x.dim() < least_rank_ || x.dim() > most_rank_) {
    throw ShapeError(fmt::format("{}: the input {} has {} dimensions, this class takes {}{}", name_, str(x.shape()),
                                 x.dim(), least_rank_,
                                 most_rank_ > least_rank_ ? fmt::format(" or {}", most_rank_) : ""));
  }
  const RunningStatistics running{running_mean, running_var, num_batches_tracked, options.momentum};
  const bool train = training();
  if (train && options.synchronized && distributed::is_distributed())
    return sync_batch_norm(x, running, weight, bias, options.eps);
  return batch_norm_tracked(x, running, weight, bias, train || !running_mean.defined(), options.eps);
}

std::string BatchNorm::extra_repr() const {
  return repr_with(options.eps, options.momentum, options.affine, options.track_running_stats) +
         (options.synchronized ? ", synchronized=True" : "");
}

InstanceNorm::InstanceNorm(const char* name, std::int64_t num_features, const InstanceNormOptions& given, int spatial)
    : ChannelNorm(name, num_features, given.affine, given.track_running_stats),
      options(given),
      name_(name),
      spatial_(spatial) {}

Tensor InstanceNorm::forward(const Tensor& x) const {
  if (x.dim() == spatial_ + 1) return forward(x.unsqueeze(0)).squeeze(0);
  if (x.dim() != spatial_ + 2) {
    throw ShapeError(fmt::format("{}: the input {} has {} dimensions, this class takes {} or {}", name_, str(x.shape()),
                                 x.dim(), spatial_ + 1, spatial_ + 2));
  }
  return instance_norm(x, running_mean, running_var, weight, bias, training() || !running_mean.defined(),
                       options.momentum, options.eps);
}

std::string InstanceNorm::extra_repr() const {
  return repr_with(options.eps, options.momentum, options.affine, options.track_running_stats);
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps, bool affine)
    : num_groups(checked_size("GroupNorm", "num_groups", num_groups, 1)),
      num_channels(checked_size("GroupNorm", "num_channels", num_channels)),
      eps(eps) {
  if (num_channels % num_groups != 0)
    throw ShapeError(fmt::format("GroupNorm: {} channels do not form {} equal groups", num_channels, num_groups));
  if (affine) weight = ones({num_channels}), bias = zeros({num_channels});
  register_parameter("weight", &GroupNorm::weight);
  register_parameter("bias", &GroupNorm::bias);
}

Tensor GroupNorm::forward(const Tensor& x) const { return group_norm(x, num_groups, weight, bias, eps); }

std::string GroupNorm::extra_repr() const {
  return fmt::format("{}, {}, {}, affine={}", num_groups, num_channels, repr_of("eps", eps), repr_of(weight.defined()));
}

LocalResponseNorm::LocalResponseNorm(std::int64_t size, double alpha, double beta, double k)
    : size(checked_size("LocalResponseNorm", "size", size, 1)), alpha(alpha), beta(beta), k(k) {}

Tensor LocalResponseNorm::forward(const Tensor& x) const { return local_response_norm(x, size, alpha, beta, k); }

std::string LocalResponseNorm::extra_repr() const {
  return fmt::format("{}, {}, {}, {}", size, repr_of("alpha", alpha), repr_of("beta", beta), repr_of("k", k));
}

std::unique_ptr<Module> GroupNorm::another() const {
  return std::make_unique<GroupNorm>(num_groups, num_channels, eps, weight.defined());
}

std::unique_ptr<Module> LocalResponseNorm::another() const {
  return std::make_unique<LocalResponseNorm>(size, alpha, beta, k);
}

#define ETNA_NORM(NAME, BASE, OPTIONS, ...)                                                                          \
  NAME::NAME(std::int64_t num_features, const OPTIONS& options) : BASE(#NAME, num_features, options, __VA_ARGS__) {} \
  std::unique_ptr<Module> NAME::another() const { return std::make_unique<NAME>(num_features, options); }
ETNA_NORM(BatchNorm1d, BatchNorm, BatchNormOptions, 2, 3)
ETNA_NORM(BatchNorm2d, BatchNorm, BatchNormOptions, 4, 4)
ETNA_NORM(BatchNorm3d, BatchNorm, BatchNormOptions, 5, 5)
ETNA_NORM(InstanceNorm1d, InstanceNorm, InstanceNormOptions, 1)
ETNA_NORM(InstanceNorm2d, InstanceNorm, InstanceNormOptions, 2)
ETNA_NORM(InstanceNorm3d, InstanceNorm, InstanceNormOptions, 3)
#undef ETNA_NORM

}  // namespace etna::nn
