#pragma once

#include <optional>

#include <etna/nn/module.h>

/// Normalization by statistics of channels: the functions of <etna/tensor/normalization.h> as modules.
namespace etna::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< weight of the new batch; none: the average of all batches
  bool affine = true;                    ///< has weight and bias
  bool track_running_stats = true;       ///< without, evaluation normalizes by the batch too
};

/// The base of BatchNorm1d, 2d and 3d. Parameters weight [C] (ones) and bias [C] (zeros); buffers running_mean (zeros),
/// running_var (ones) and num_batches_tracked (i64), which training updates on the device.
class BatchNorm : public UnaryModule {
 public:
  /// @param x [N, C, ...] @throws ShapeError unless x has as many dimensions as the class asks for
  Tensor forward(const Tensor& x) const override;

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  BatchNormOptions options;

 protected:
  BatchNorm(std::int64_t num_features, const BatchNormOptions& options, int least_rank, int most_rank);

 private:
  int least_rank_, most_rank_;
};

/// x: [N, C] or [N, C, L]
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 2, 3) {}
};
/// x: [N, C, H, W]
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 4, 4) {}
};
/// x: [N, C, D, H, W]
class BatchNorm3d : public BatchNorm {
 public:
  explicit BatchNorm3d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm(num_features, options, 5, 5) {}
};

struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false, track_running_stats = false;
};

/// The base of InstanceNorm1d, 2d and 3d. Parameters and buffers as BatchNorm's, where the options ask for them.
class InstanceNorm : public UnaryModule {
 public:
  /// @param x [N, C, spatial...] or [C, spatial...]
  Tensor forward(const Tensor& x) const override;

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  InstanceNormOptions options;

 protected:
  InstanceNorm(std::int64_t num_features, const InstanceNormOptions& options, int spatial);

 private:
  int spatial_;
};
class InstanceNorm1d : public InstanceNorm {
 public:
  explicit InstanceNorm1d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 1) {}
};
class InstanceNorm2d : public InstanceNorm {
 public:
  explicit InstanceNorm2d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 2) {}
};
class InstanceNorm3d : public InstanceNorm {
 public:
  explicit InstanceNorm3d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm(num_features, options, 3) {}
};

/// weight and bias are [C], if affine.
class GroupNorm : public UnaryModule {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps = 1e-5, bool affine = true);
  /// @param x [N, C, ...]
  Tensor forward(const Tensor& x) const override;

  std::int64_t num_groups;
  double eps;
  Tensor weight, bias;
};

class LocalResponseNorm : public UnaryModule {
 public:
  explicit LocalResponseNorm(std::int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1)
      : size(size), alpha(alpha), beta(beta), k(k) {}
  Tensor forward(const Tensor& x) const override;

  std::int64_t size;
  double alpha, beta, k;
};

}  // namespace etna::nn
