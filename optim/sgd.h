#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< gradients are scaled down to this global norm in the pass that steps; 0: they are not
};

/// Gradient descent with momentum (Sutskever et al. 2013), by PyTorch's formula:
///     g ← g + weight_decay · p;   b ← momentum · b + (1 - dampening) · g   (b ← g at the first step)
///     p ← p - lr · (nesterov ? g + momentum · b : b)
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, SGDOptions options = {});
  /// @throws Error for a negative setting, or nesterov without momentum or with dampening
  SGD(std::vector<ParamGroup> groups, SGDOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  SGDOptions options_;
};

}  // namespace etna::optim
