#pragma once

#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct LAMBOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// LAMB (You et al. 2020, "Large batch optimization for deep learning"), for large batches: Adam's step, scaled for
/// each tensor to the norm of its parameter. m and v as Adam:
///     u = m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps) + weight_decay · p;   p ← p - lr · ‖p‖/‖u‖ · u
/// The factor ‖p‖/‖u‖ is 1 where a norm is 0. Composed of ops: several dispatches for each parameter.
class LAMB : public Optimizer {
 public:
  explicit LAMB(std::vector<Tensor> parameters, LAMBOptions options = {});
  /// @throws Error for a setting out of range
  LAMB(std::vector<ParamGroup> groups, LAMBOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  LAMBOptions options_;
};

}  // namespace etna::optim
