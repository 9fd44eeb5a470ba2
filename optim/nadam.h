#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  ///< weight decay acts on the parameter, not through the gradient
  bool maximize = false;                ///< climbs instead of descending
  double max_grad_norm = 0;             ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with Nesterov momentum (Dozat 2016), by PyTorch's formula; g, m and v as Adam:
///     μᵢ = β₁(1 - 0.96^(i · momentum_decay)/2);   Πₜ = μ₁ · ... · μₜ
///     p ← p - lr · ((1 - μₜ)/(1 - Πₜ) · g + μₜ₊₁/(1 - Πₜ₊₁) · m) / (√(v/(1 - β₂ᵗ)) + eps)
/// A β₁ that a schedule changes counts in Πₜ as if it had always been so; PyTorch keeps the product of those that were.
class NAdam : public Optimizer {
 public:
  explicit NAdam(std::vector<Tensor> parameters, NAdamOptions options = {});
  /// @throws Error for a setting out of range
  NAdam(std::vector<ParamGroup> groups, NAdamOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  NAdamOptions options_;
};

}  // namespace etna::optim
