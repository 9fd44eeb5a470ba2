#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// RMSprop (Hinton 2012; centered: Graves 2013), by PyTorch's formula:
///     g ← g + weight_decay · p;   s ← αs + (1 - α)g²;   centered: a ← αa + (1 - α)g
///     d = g / (√(centered ? s - a² : s) + eps);   b ← momentum · b + d;   p ← p - lr · b
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Tensor> parameters, RMSpropOptions options = {});
  /// @throws Error for a setting out of range
  RMSprop(std::vector<ParamGroup> groups, RMSpropOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RMSpropOptions options_;
};

}  // namespace etna::optim
