#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

/// Normalization. Results have x's dtype; statistics are f32 (f64 for f64).
namespace etna {

// ---- over the last dimension
/// (x - mean) / √(variance + eps) · weight + bias over the last dimension (Ba et al. 2016).
/// @param weight, bias [D] or undefined
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
/// Root-mean-square norm (Zhang & Sennrich 2019). @param weight [D] or undefined
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-6);
/// A sum and its norm.
struct AddedNorm {
  Tensor sum, normed;
};
/// x + delta and its norm, in one pass forward and one pass backward: the norm's kernel also adds to the residual
/// stream.
/// @param delta of x's shape, or of the shape of its last dimensions; then it is repeated
AddedNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, const Tensor& bias,
                         double eps = 1e-5);
AddedNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, double eps = 1e-6);

// ---- by statistics of channels, computed without loss of digits for a mean far from 0 and for any number of elements
/// Running statistics of the batches that a layer has seen. Updated in place on the device, also in captured steps.
struct RunningStatistics {
  Tensor mean, var;                      ///< [C]; undefined: not tracked
  Tensor num_batches_tracked = {};       ///< i64, []; undefined: not counted
  std::optional<double> momentum = 0.1;  ///< weight of the new batch; none: the average of all batches so far
};

/// A layer with running statistics, for code that finds these layers in a model (optim::update_bn).
class KeepsRunningStatistics {
 public:
  virtual ~KeepsRunningStatistics() = default;
  /// Mean 0, variance 1, no batches.
  virtual void reset_running_stats() = 0;
  virtual std::optional<double> momentum() const = 0;
  virtual void set_momentum(std::optional<double> momentum) = 0;
};

/// Batch normalization (Ioffe & Szegedy 2015). Training normalizes by the batch's own mean and variance and updates the
/// running ones (with the unbiased variance); otherwise it normalizes by the running ones.
/// @param x [N, C, ...], floating @param weight, bias [C] or undefined @return x's shape; keeps channels last
/// @throws ShapeError if training has one value per channel, or if the running statistics are missing without training
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false, double momentum = 0.1, double eps = 1e-5);
/// batch_norm() that also counts batches, and can average over all of them.
Tensor batch_norm_tracked(const Tensor& x, const RunningStatistics& running, const Tensor& weight, const Tensor& bias,
                          bool training, double eps = 1e-5);

/// Normalizes each channel of each example by its own statistics (Ulyanov et al. 2016). Without use_input_stats, by the
/// running ones. @param x [N, C, ...]
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                     const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                     double momentum = 0.1, double eps = 1e-5);

/// Normalizes each example's channels in groups (Wu & He 2018). @param x [N, C, ...], C a multiple of num_groups
/// @param weight, bias [C] or undefined
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// x / (k + alpha · mean of the squares of `size` neighbouring channels)^beta (Krizhevsky et al. 2012).
/// @param x [N, C, ...]
Tensor local_response_norm(const Tensor& x, std::int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);

}  // namespace etna
