#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms"), with decoupled weight decay:
///     p ← p - lr · (sign(β₁m + (1 - β₁)g) + weight_decay · p);   m ← β₂m + (1 - β₂)g
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Tensor> parameters, LionOptions options = {});
  /// @throws Error for a setting out of range
  Lion(std::vector<ParamGroup> groups, LionOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  LionOptions options_;
};

}  // namespace etna::optim
