#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct RpropOptions {
  double lr = 1e-2;
  double eta_minus = 0.5;
  double eta_plus = 1.2;
  double step_min = 1e-6;
  double step_max = 50;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Resilient propagation (Riedmiller & Braun 1993), by PyTorch's formula. Each element has a step size, at first lr. It
/// grows by eta_plus where the gradient keeps its sign; where the sign changes, it shrinks by eta_minus and the element
/// waits a step. There is no weight decay.
class Rprop : public Optimizer {
 public:
  explicit Rprop(std::vector<Tensor> parameters, RpropOptions options = {});
  /// @throws Error for a setting out of range
  Rprop(std::vector<ParamGroup> groups, RpropOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RpropOptions options_;
};

}  // namespace etna::optim
