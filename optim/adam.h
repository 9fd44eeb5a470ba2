#pragma once

#include <cstdint>
#include <utility>

#include <etna/optim/optimizer.h>

namespace etna::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;      ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam (Kingma & Ba 2015), with weight decay added to the gradient:
///     g ← g + weight_decay · p;   m ← β₁m + (1 - β₁)g;   v ← β₂v + (1 - β₂)g²
///     p ← p - lr · m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps)
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  /// @throws Error for a setting out of range
  Adam(std::vector<ParamGroup> groups, AdamOptions options);

 protected:
  Adam(std::vector<ParamGroup> groups, AdamOptions options, bool decoupled);
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdamOptions options_;
  bool decoupled_ = false;  ///< weight decay acts on the parameter, not through the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;      ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019): p ← p - lr · weight_decay · p before Adam's step, and g
/// without weight decay.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
  /// @throws Error for a setting out of range
  AdamW(std::vector<ParamGroup> groups, AdamWOptions options);
};

struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with the decaying largest magnitude in place of the second moment (Kingma & Ba 2015):
///     g ← g + weight_decay · p;   m ← β₁m + (1 - β₁)g;   u ← max(β₂u, |g| + eps);   p ← p - lr/(1 - β₁ᵗ) · m/u
class Adamax : public Optimizer {
 public:
  explicit Adamax(std::vector<Tensor> parameters, AdamaxOptions options = {});
  /// @throws Error for a setting out of range
  Adamax(std::vector<ParamGroup> groups, AdamaxOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdamaxOptions options_;
};

struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  ///< weight decay acts on the parameter, not through the gradient
  bool maximize = false;                ///< climbs instead of descending
  double max_grad_norm = 0;             ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with Nesterov momentum (Dozat 2016), by PyTorch's formula; g, m and v as Adam:
///     μᵢ = β₁(1 - 0.96^(i · momentum_decay)/2);   Πₜ = μ₁ · ... · μₜ
///     p ← p - lr · ((1 - μₜ)/(1 - Πₜ) · g + μₜ₊₁/(1 - Πₜ₊₁) · m) / (√(v/(1 - β₂ᵗ)) + eps)
/// A β₁ that a schedule changes counts in Πₜ as if it had always been so; PyTorch keeps the product of those that were.
class NAdam : public Optimizer {
 public:
  explicit NAdam(std::vector<Tensor> parameters, NAdamOptions options = {});
  /// @throws Error for a setting out of range
  NAdam(std::vector<ParamGroup> groups, NAdamOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  NAdamOptions options_;
};

struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< weight decay acts on the parameter, not through the gradient
  bool maximize = false;                ///< climbs instead of descending
  double max_grad_norm = 0;             ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Rectified Adam (Liu et al. 2020), by PyTorch's formula; g, m and v as Adam:
///     ρₜ = ρ - 2t β₂ᵗ/(1 - β₂ᵗ),   ρ = 2/(1 - β₂) - 1
///     r² = (ρₜ - 4)(ρₜ - 2)ρ / ((ρ - 4)(ρ - 2)ρₜ)
///     p ← p - lr · m/(1 - β₁ᵗ) · (ρₜ > 5 ? r √(1 - β₂ᵗ)/(√v + eps) : 1)
class RAdam : public Optimizer {
 public:
  explicit RAdam(std::vector<Tensor> parameters, RAdamOptions options = {});
  /// @throws Error for a setting out of range
  RAdam(std::vector<ParamGroup> groups, RAdamOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  RAdamOptions options_;
};

struct AdEMAMixOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double beta3 = 0.9999;  ///< of the slow average of the gradients
  double alpha = 5;       ///< share of the slow average in a step
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::int64_t warmup = 0;   ///< steps over which beta3 and alpha grow, T of the paper; 0: none
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Adam with a second, slow average of the gradients (Pagliardini et al. 2024, "The AdEMAMix optimizer: better, faster,
/// older") and decoupled weight decay; m and v as Adam:
///     n ← bn + (1 - b)g;   p ← p - lr · ((m/(1 - β₁ᵗ) + a · n) / (√(v/(1 - β₂ᵗ)) + eps) + weight_decay · p)
/// For T = warmup, a and b reach alpha and β₃ at step T: s = min(t/T, 1);   a = s · alpha
///     ln b = min(1/((1 - s)/ln β₁ + s/ln β₃), ln β₃), so that the half-life of n grows evenly
/// This is the paper's schedule; the authors' code adds 1e-8 to the betas in it.
class AdEMAMix : public Optimizer {
 public:
  explicit AdEMAMix(std::vector<Tensor> parameters, AdEMAMixOptions options = {});
  /// @throws Error for a setting out of range
  AdEMAMix(std::vector<ParamGroup> groups, AdEMAMixOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  AdEMAMixOptions options_;
};

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
