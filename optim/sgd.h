#pragma once

#include <utility>

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  SGDOptions options_;
};

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  ASGDOptions options_;
};

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
  bool is_elementwise() const override { return true; }
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  LionOptions options_;
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  double ns_a = 3.4445, ns_b = -4.7750, ns_c = 2.0315;  ///< coefficients of an iteration
  double eps = 1e-7;
  int ns_steps = 5;
  bool match_rms_adamw = false;
  bool maximize = false;     ///< climbs instead of descending
  double max_grad_norm = 0;  ///< clips gradients to this global norm in the pass that steps; 0: no clipping
};

/// Muon (Jordan et al. 2024), for matrices: momentum, made orthogonal by Newton-Schulz iterations. A parameter of more
/// dimensions is the matrix [size(0), -1]. Use AdamW for vectors, embeddings and output layers.
///     b ← b + (1 - momentum)(g - b);   g ← nesterov ? g + momentum · (b - g) : b
///     u = g/max(‖g‖, eps), transposed if tall;   ns_steps times: S = u uᵀ, u ← a u + (b S + c S²) u
///     p ← (1 - lr · weight_decay) p - lr · scale · u
/// scale is √max(1, rows/columns), or 0.2 √max(rows, columns), which gives a step the size of AdamW's (Liu et al.
/// 2025). Composed of ops; f32 is multiplied in f32, where PyTorch rounds to bf16.
class Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Tensor> parameters, MuonOptions options = {});
  /// @throws Error for a setting out of range or a parameter of fewer than two dimensions
  Muon(std::vector<ParamGroup> groups, MuonOptions options);

 protected:
  std::vector<std::string> state_names(const ParamGroup& group) const override;
  void update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
              const Tensor& control) override;

 private:
  MuonOptions options_;
};

}  // namespace etna::optim
