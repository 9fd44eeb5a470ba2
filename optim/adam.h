#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;      ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam (Kingma & Ba 2015), with weight decay added to the gradient:
///     g ← g + weight_decay · p;   m ← β₁m + (1 - β₁)g;   v ← β₂v + (1 - β₂)g²
///     p ← p - lr · m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps)
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  /// @throws Error for a setting out of range
  Adam(std::vector<ParamGroup> groups, AdamOptions options);

 protected:
  Adam(std::vector<ParamGroup> groups, AdamOptions options, bool decoupled);
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdamOptions options_;
  bool decoupled_ = false;  ///< weight decay acts on the parameter, not through the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;      ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019): p ← p - lr · weight_decay · p before Adam's step, and g
/// without weight decay.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
  /// @throws Error for a setting out of range
  AdamW(std::vector<ParamGroup> groups, AdamWOptions options);
};

}  // namespace etna::optim
