#pragma once

#include <etna/optim/optimizer.h>

namespace etna::optim {

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
