#pragma once

#include <cstdint>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/normalization/normalization.h>

/// Normalization of x [A, C, B] by the statistics of each channel: those of its A·B elements if training, otherwise
/// given ones. Batch, group and instance norm are this op with different shapes.
namespace etna::normalization::batch {

/// in: x, weight or undefined, bias or undefined; mean and variance unless training
/// out: y, of x's dtype; the mean; if training, the square root of the (biased) variance [C], which fits f32 where the
/// variance does not, otherwise the given variance. Statistics are f64 for f64, otherwise f32
struct BatchNormAttrs {
  double eps = 1e-5;
  bool training = true;
};

/// in: gradient of y, x, weight or undefined, mean, and deviation or variance as forward returned it
/// out: dx, then dweight and dbias if wanted
struct BatchNormBackwardAttrs {
  double eps = 1e-5;
  bool training = true, wants_weight = false, wants_bias = false;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;
};

/// in: running mean and variance, mean, deviation, number of batches (i64, 0-d) or undefined
/// out: the running statistics and the number of batches, updated in place
struct BatchNormUpdateAttrs {
  double momentum = 0.1;    ///< weight of the new statistics
  bool cumulative = false;  ///< weight is 1 / number of batches instead
  double unbiased = 1;      ///< factor from the biased to the unbiased variance
};

struct Normalized {
  Tensor y, mean, deviation;
};
/// Normalizes by the statistics of x itself. @param x [A, C, B] @param weight, bias [C] or undefined
Normalized normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
/// Normalizes by given statistics.
Tensor normalize_by(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                    const Tensor& bias, double eps);
/// Moves the running statistics toward those of a batch. @param count number of elements from which the deviation was
/// computed
void update(const RunningStatistics& running, const Tensor& mean, const Tensor& deviation, double count);

inline DType statistics_dtype(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

void forward_cpu(const OpCall& call, std::span<Tensor> out);
void backward_cpu(const OpCall& call, std::span<Tensor> out);
void update_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_gpu(const OpCall& call, std::span<Tensor> out);
bool backward_gpu(const OpCall& call, std::span<Tensor> out);
bool update_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::normalization::batch
