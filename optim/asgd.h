#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;  ///< averaging starts at this step
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Averaged gradient descent (Polyak & Juditsky 1992), by PyTorch's formula; lr is the rate of the current step:
///     g ← g + weight_decay · p;   η = lr / (1 + lambd · lr · (t - 1))^alpha;   p ← (1 - lambd · η) p - η g
///     a ← a + (p - a) / max(1, t - 1 - t0)
/// The averages a are the states "ax" of state_dict().
class ASGD : public Optimizer {
 public:
  explicit ASGD(std::vector<Tensor> parameters, ASGDOptions options = {});
  /// @throws Error for a setting out of range
  ASGD(std::vector<ParamGroup> groups, ASGDOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  ASGDOptions options_;
};

}  // namespace etna::optim
