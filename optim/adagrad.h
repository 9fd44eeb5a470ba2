#pragma once

#include <optional>

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
  bool is_elementwise() const override { return true; }
  double initial_state() const override { return options_.initial_accumulator_value; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdagradOptions options_;
};

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdadeltaOptions options_;
};

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RMSpropOptions options_;
};

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RpropOptions options_;
};

}  // namespace etna::optim
