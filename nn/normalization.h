#pragma once

#include <optional>

#include <etna/nn/module.h>
#include <etna/tensor/ops/normalization/normalization.h>

/// Normalization by statistics of channels and of rows. The functions of channels are those of
/// <etna/tensor/ops/normalization/normalization.h>.
namespace etna::nn {

/// What BatchNorm and InstanceNorm share. Parameters weight [C] (ones) and bias [C] (zeros); buffers running_mean
/// (zeros), running_var (ones) and num_batches_tracked (i64), which training updates on the device. Each is undefined
/// where the options do not ask for it.
class ChannelNorm : public UnaryModule {
 public:
  const std::int64_t num_features;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  ChannelNorm(const char* name, std::int64_t num_features, bool affine, bool track_running_stats);
  void reset_statistics();
  std::string repr_with(double eps, std::optional<double> momentum, bool affine, bool track_running_stats) const;
};

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< weight of the new batch; none: the average of all batches
  bool affine = true;                    ///< has weight and bias
  bool track_running_stats = true;       ///< without, evaluation normalizes by the batch too
  bool synchronized = false;             ///< training normalizes by all ranks' batches (sync_batch_norm())
};

/// The base of BatchNorm1d, 2d and 3d.
class BatchNorm : public ChannelNorm, public KeepsRunningStatistics {
 public:
  /// @param x [N, C, ...] @throws ShapeError unless x has as many dimensions as the class asks for
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  void reset_running_stats() override { reset_statistics(); }
  std::optional<double> momentum() const override { return options.momentum; }
  void set_momentum(std::optional<double> momentum) override { options.momentum = momentum; }

  BatchNormOptions options;

 protected:
  BatchNorm(const char* name, std::int64_t num_features, const BatchNormOptions& options, int least_rank,
            int most_rank);

 private:
  const char* name_;
  int least_rank_, most_rank_;
};

/// batch_norm() in training, by the mean and variance of all ranks' batches; these may have other sizes, and none. One
/// all_gather of 2C + 1 numbers forward, one reduce_scatter backward. All ranks call it. Statistics are f32 (f64 for
/// f64).
/// @param x [N, C, ...] @param running updated, where they are defined @param weight, bias [C], or undefined
Tensor sync_batch_norm(const Tensor& x, const RunningStatistics& running, const Tensor& weight, const Tensor& bias,
                       double eps = 1e-5);

/// Every BatchNorm of the model normalizes by all ranks' batches in training from now on: PyTorch's
/// convert_sync_batchnorm(). In a group of one they stay as they are.
/// @return how many there are
int convert_sync_batchnorm(Module& model);

struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false, track_running_stats = false;
};

/// The base of InstanceNorm1d, 2d and 3d.
class InstanceNorm : public ChannelNorm {
 public:
  /// @param x [N, C, spatial...] or [C, spatial...]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;
  void reset_running_stats() { reset_statistics(); }

  InstanceNormOptions options;

 protected:
  InstanceNorm(const char* name, std::int64_t num_features, const InstanceNormOptions& options, int spatial);

 private:
  const char* name_;
  int spatial_;
};

#define ETNA_NORM(NAME, BASE, OPTIONS)                                     \
  class NAME : public BASE {                                               \
   public:                                                                 \
    explicit NAME(std::int64_t num_features, const OPTIONS& options = {}); \
                                                                           \
   protected:                                                              \
    std::unique_ptr<Module> another() const override;                      \
  };
ETNA_NORM(BatchNorm1d, BatchNorm, BatchNormOptions)           // x: [N, C] or [N, C, L]
ETNA_NORM(BatchNorm2d, BatchNorm, BatchNormOptions)           // x: [N, C, H, W]
ETNA_NORM(BatchNorm3d, BatchNorm, BatchNormOptions)           // x: [N, C, D, H, W]
ETNA_NORM(InstanceNorm1d, InstanceNorm, InstanceNormOptions)  // x: [N, C, L] or [C, L]
ETNA_NORM(InstanceNorm2d, InstanceNorm, InstanceNormOptions)  // x: [N, C, H, W] or [C, H, W]
ETNA_NORM(InstanceNorm3d, InstanceNorm, InstanceNormOptions)  // x: [N, C, D, H, W] or [C, D, H, W]
#undef ETNA_NORM

/// weight and bias are [C], if affine.
class GroupNorm : public UnaryModule {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps = 1e-5, bool affine = true);
  /// @param x [N, C, ...]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const std::int64_t num_groups, num_channels;
  double eps;
  Tensor weight, bias;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// local_response_norm() with its settings.
class LocalResponseNorm : public UnaryModule {
 public:
  explicit LocalResponseNorm(std::int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  std::int64_t size;
  double alpha, beta, k;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// y = (x - mean(x)) / √(var(x) + eps) · weight + bias, over the last dimension (Ba et al. 2016). weight [dim] starts
/// at 1, bias [dim] at 0.
class LayerNorm : public UnaryModule {
 public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-5);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight, bias;
  double eps;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// y = x / √(mean(x²) + eps) · weight, over the last dimension (Zhang & Sennrich 2019). weight [dim] starts at 1.
class RMSNorm : public UnaryModule {
 public:
  explicit RMSNorm(std::int64_t dim, double eps = 1e-6);
  /// @param x [..., dim] @return [..., dim]
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  Tensor weight;
  double eps;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
