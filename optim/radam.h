#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< weight decay acts on the parameter, not through the gradient
  bool maximize = false;                ///< climbs instead of descending
  double max_grad_norm = 0;             ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Rectified Adam (Liu et al. 2020), by PyTorch's formula; g, m and v as Adam:
///     ρₜ = ρ - 2t β₂ᵗ/(1 - β₂ᵗ),   ρ = 2/(1 - β₂) - 1
///     r² = (ρₜ - 4)(ρₜ - 2)ρ / ((ρ - 4)(ρ - 2)ρₜ)
///     p ← p - lr · m/(1 - β₁ᵗ) · (ρₜ > 5 ? r √(1 - β₂ᵗ)/(√v + eps) : 1)
class RAdam : public Optimizer {
 public:
  explicit RAdam(std::vector<Tensor> parameters, RAdamOptions options = {});
  /// @throws Error for a setting out of range
  RAdam(std::vector<ParamGroup> groups, RAdamOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RAdamOptions options_;
};

}  // namespace etna::optim
