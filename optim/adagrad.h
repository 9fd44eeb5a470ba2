#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double eps = 1e-10;
  double initial_accumulator_value = 0;  ///< of s
  bool maximize = false;                 ///< climbs instead of descending
  double max_grad_norm = 0;              ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adagrad (Duchi et al. 2011), by PyTorch's formula:
///     g ← g + weight_decay · p;   s ← s + g²
///     p ← p - lr / (1 + (t - 1) · lr_decay) · g / (√s + eps)
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {});
  /// @throws Error for a negative setting
  Adagrad(std::vector<ParamGroup> groups, AdagradOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  double initial_state() const override { return options_.initial_accumulator_value; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdagradOptions options_;
};

}  // namespace etna::optim
