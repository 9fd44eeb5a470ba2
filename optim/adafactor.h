#pragma once

#include <optional>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::optional<double> eps1 = {};  ///< by default 2⁻²³, for f64 parameters 2⁻⁵²
  double eps2 = 1e-3;
  double d = 1;  ///< bounds the root mean square of a step
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adafactor (Shazeer & Stern 2018), by PyTorch's formula. Of a matrix [..., R, C] it keeps only the means of squared
/// gradients by row and by column, of a vector all of them. For β = 1 - t^beta2_decay, ρ = min(lr, 1/√t):
///     r ← βr + (1 - β) mean(g², columns);   c ← βc + (1 - β) mean(g², rows);   v = r · c / max(mean(r), eps1)
///     u = g / √max(v, eps1²);   p ← (1 - lr · weight_decay) p
///     p ← p - ρ · max(eps2, rms(p)) / max(1, rms(u)/d) · u
/// Composed of ops: several dispatches for each parameter.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(std::vector<Tensor> parameters, AdafactorOptions options = {});
  /// @throws Error for a setting out of range
  Adafactor(std::vector<ParamGroup> groups, AdafactorOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  Shape state_shape(const Tensor& parameter, std::size_t state) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdafactorOptions options_;
};

}  // namespace etna::optim
