#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adadelta (Zeiler 2012), by PyTorch's formula:
///     g ← g + weight_decay · p;   s ← ρs + (1 - ρ)g²;   d = √(a + eps)/√(s + eps) · g
///     a ← ρa + (1 - ρ)d²;   p ← p - lr · d
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(std::vector<Tensor> parameters, AdadeltaOptions options = {});
  /// @throws Error for a setting out of range
  Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdadeltaOptions options_;
};

}  // namespace etna::optim
