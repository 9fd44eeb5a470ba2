#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with the decaying largest magnitude in place of the second moment (Kingma & Ba 2015):
///     g ← g + weight_decay · p;   m ← β₁m + (1 - β₁)g;   u ← max(β₂u, |g| + eps);   p ← p - lr/(1 - β₁ᵗ) · m/u
class Adamax : public Optimizer {
 public:
  explicit Adamax(std::vector<Tensor> parameters, AdamaxOptions options = {});
  /// @throws Error for a setting out of range
  Adamax(std::vector<ParamGroup> groups, AdamaxOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdamaxOptions options_;
};

}  // namespace etna::optim
