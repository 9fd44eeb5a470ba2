#pragma once

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

/// For optimizers that need norms, means or matrix products of a tensor, and so are composed of ops.
namespace etna::optim {

/// What a composed step of one parameter reads, in the dtype of its states, on its device.
class ComposedStep {
 public:
  /// @param control of the step, or undefined
  ComposedStep(const Tensor& parameter, const Tensor& grad, const StepNumbers& numbers, const Tensor& control,
               bool maximize);

  /// 1 - betaᵗ, also if betaᵗ is near 1. @param beta in [0, 1)
  Tensor one_minus_power(double beta) const;
  Tensor one_minus_momentum_power() const;  ///< the same of the momentum
  /// Replaces the values of a parameter or state, unless the step is skipped.
  void write(Tensor to, const Tensor& value) const;

  Tensor x, gradient;                   ///< unscaled and clipped
  Tensor lr, weight_decay, step;        ///< 0-d; step counts from 1
  Tensor momentum, one_minus_momentum;  ///< 0-d; or of β₁

 private:
  Tensor log_momentum_;
  Tensor skip_;  ///< 0-d bool, or undefined
};

/// The square root of the sum of squares. @return 0-d
Tensor l2_norm(const Tensor& x);

}  // namespace etna::optim
